//! `pandastack host audit` and a process without an owner.

use std::{
    io::Read as _,
    os::unix::process::ExitStatusExt as _,
    process::{Command, Stdio},
};

use pandastack_client::{Client, Config, wire::CreateSandbox};
use pandastack_model::MachineId;
use pandastack_testbed::{DataFolder, TestServer, built, run_root_of};

/// It reports the leak and its removal, and still exits with an error, to alert an operator. The
/// next audit finds nothing.
#[tokio::test]
async fn the_audit_ends_a_machine_process_that_no_ledger_line_names() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let audit = || {
        let mut command = Command::new(built("pandastack"));
        command.args(["host", "audit"]).stdin(Stdio::null());
        command.env("PANDASTACK_API_URL", &server.url).env("PANDASTACK_API_KEY", &server.key);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    let client = Client::new(config.with_key(server.key.clone())).unwrap();
    let sandbox =
        client.create(&CreateSandbox { template: Some("mini".to_owned()), ..Default::default() }).await.unwrap();
    let run_root = run_root_of(data.path()).expect("a machine runs");
    let (code, said) = audit();
    assert_eq!(code, Some(0), "{said}");

    let machine = MachineId::random().to_string();
    // Looks like a machine's process, in a folder of this host. It waits for input that never
    // comes.
    let mut stray = Command::new("sh")
        .args(["-c", "echo ready; read word", "-accel"])
        .arg(run_root.join(&machine).join("socket"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    stray.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    let (code, said) = audit();
    assert!(said.contains(&format!("leak: machine process {machine} is not in the ledger (removed)")), "{said}");
    assert_eq!(code, Some(1));
    assert_eq!(stray.wait().unwrap().signal(), Some(9));
    let (code, said) = audit();
    assert!(code == Some(0) && said.ends_with("no leaks\n"), "{said}");
    assert_eq!(client.get(&sandbox.id).await.unwrap().status, sandbox.status, "a sandbox has nothing to do with it");
}
