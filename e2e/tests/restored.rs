//! The restore of an older database on a server with machines: what came after the backup is put
//! aside with its data, and works again when it is adopted.

use std::{path::Path, process::Command};

use pandastack_client::{
    Client, Config,
    wire::{CreateSandbox, CreateVolume, ExecRequest, VolumeAttachment},
};
use pandastack_e2e::PATIENCE;
use pandastack_testbed::{DataFolder, TestServer, built, wait_for};
use serde_json::Value;

#[tokio::test]
async fn a_restore_deletes_nothing_and_what_it_put_aside_is_adopted() {
    let data = DataFolder::with_templates().unwrap();
    let mut server = TestServer::start(data.path(), &["--standby", "0"]).unwrap();
    let old = client(&server);
    let known = old.create(&mini(Vec::new())).await.unwrap().id;
    old.create_volume(&volume("known")).await.unwrap();
    let backup = data.path().with_extension("backup.db");
    admin(data.path(), &["backup", backup.to_str().unwrap()]);

    let later = old.create(&mini(Vec::new())).await.unwrap().id;
    let started = "echo precious > /srv/file; setsid sleep 100000 > /dev/null 2>&1 < /dev/null & echo $!";
    let pid = run(&old, &later, started).await.trim().to_owned();
    old.create_volume(&volume("later")).await.unwrap();
    let writer = old.create(&mini(vec![mount("later")])).await.unwrap().id;
    run(&old, &writer, "echo kept > /data/file").await;
    old.delete(&writer).await.unwrap();

    let said = admin(data.path(), &["restore", backup.to_str().unwrap()]);
    assert!(said.contains("next start"), "{said}");
    // Its machines go on meanwhile.
    server.kill().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0"]).unwrap();
    let told = server.said();
    assert!(told.contains("1 sandbox, 1 volume") && told.contains("admin orphans list"), "{told}");
    let new = client(&server);
    let listed: Vec<String> = new.list().await.unwrap().into_iter().map(|sandbox| sandbox.id).collect();
    assert_eq!(listed, std::slice::from_ref(&known));
    assert_eq!(new.get(&later).await.unwrap_err().status(), Some(404));
    assert_eq!(new.exec(&later, &line("true")).await.unwrap_err().status(), Some(404));
    let rests = async || orphans(data.path()).iter().all(|orphan| orphan["state"] == "kept").then_some(());
    wait_for("the machine sleeps", PATIENCE, rests).await;
    assert_eq!(new.audit().await.unwrap().machines, 1, "only the known one takes memory");

    let put_aside = orphans(data.path());
    assert_eq!(put_aside.len(), 2, "{put_aside:?}");
    let (sandbox, disk) = (&put_aside[0], &put_aside[1]);
    assert_eq!(
        (&sandbox["id"], &sandbox["kind"], &sandbox["template"]),
        (&later.clone().into(), &"sandbox".into(), &"mini".into())
    );
    assert_eq!(
        (&disk["kind"], &disk["disk_mib"], &disk["host_state"]),
        (&"volume".into(), &64.into(), &"unused".into())
    );
    assert!(disk["since"].is_string() && sandbox["backup"].as_str().unwrap().ends_with("backup.db"), "{put_aside:?}");

    let disk = disk["id"].as_str().unwrap();
    let refused = refused(data.path(), &["orphans", "adopt", disk, "--workspace", "default", "--name", "known"]);
    assert!(refused.contains("choose another --name"), "{refused}");
    admin(data.path(), &["orphans", "adopt", &later, "--workspace", "default"]);
    admin(data.path(), &["orphans", "adopt", disk, "--workspace", "default", "--name", "found"]);
    assert!(orphans(data.path()).is_empty());

    let seen = run(&new, &later, &format!("cat /srv/file; kill -0 {pid} && echo alive")).await;
    assert_eq!(seen, "precious\nalive\n", "its memory and its disk");
    let reader = new.create(&mini(vec![mount("found")])).await.unwrap().id;
    assert_eq!(run(&new, &reader, "cat /data/file").await, "kept\n");
    assert_eq!(run(&new, &known, "echo here").await, "here\n");
    admin(data.path(), &["audit", "verify"]);

    for id in [&known, &later, &reader] {
        new.delete(id).await.unwrap();
    }
    for name in ["known", "found"] {
        new.delete_volume(name).await.unwrap();
    }
    let audit = new.audit().await.unwrap();
    assert_eq!((audit.leaks, audit.machines), (Vec::new(), 0), "{}", server.said());
    std::fs::remove_file(backup).unwrap();
}

fn client(server: &TestServer) -> Client {
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    Client::new(config.with_key(server.key.clone())).unwrap()
}

fn mini(volumes: Vec<VolumeAttachment>) -> CreateSandbox {
    CreateSandbox { template: Some("mini".into()), volumes: Some(volumes), ..CreateSandbox::default() }
}

fn volume(name: &str) -> CreateVolume {
    CreateVolume { name: name.to_owned(), size_mb: Some(64) }
}

fn mount(name: &str) -> VolumeAttachment {
    VolumeAttachment { name: name.to_owned(), mount_path: Some("/data".to_owned()), ..VolumeAttachment::default() }
}

fn line(text: &str) -> ExecRequest {
    ExecRequest { cmd: Some(text.to_owned()), ..ExecRequest::default() }
}

async fn run(client: &Client, id: &str, text: &str) -> String {
    let ran = client.exec(id, &line(text)).await.unwrap();
    assert_eq!((ran.exit_code, ran.stderr.as_str()), (0, ""), "{text}: {}", ran.stdout);
    ran.stdout
}

/// Lists what was put aside.
fn orphans(data: &Path) -> Vec<Value> {
    serde_json::from_str(&admin(data, &["orphans", "list", "--json"])).unwrap()
}

/// Runs a command of the operator, which succeeds.
pub fn admin(data: &Path, words: &[&str]) -> String {
    let (good, said) = ran(data, words);
    assert!(good, "{words:?}: {said}");
    said
}

fn refused(data: &Path, words: &[&str]) -> String {
    let (good, said) = ran(data, words);
    assert!(!good, "{words:?}: {said}");
    said
}

fn ran(data: &Path, words: &[&str]) -> (bool, String) {
    let mut command = Command::new(built("pandastack"));
    command.arg("admin").args(words).arg("--data-dir").arg(data).env_remove("DATABASE_URL");
    let output = command.output().unwrap();
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8(text).unwrap())
}
