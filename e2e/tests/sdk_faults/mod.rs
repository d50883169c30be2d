//! Our own SDKs against a real machine, while something between them fails: the server is killed
//! and started again, or a proxy holds answers back. Each call recovers or raises the documented
//! error.

mod proxies;

use std::{
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
};

use pandastack_e2e::{
    own_sdk::{PythonSdk, TypeScriptSdk},
    project,
};
use pandastack_testbed::{DataFolder, TestServer};
use proxies::{buffering_proxy, switching_relay};
use serde_json::{Value, json};

/// A running client program.
struct Program {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(command: &mut Command, url: &str, key: &str) -> Self {
        command.env("PANDASTACK_API", url).env("PANDASTACK_API_KEY", key).env("NO_PROXY", "*");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line that it prints; its errors are in the test's output.
    fn line(&mut self) -> String {
        self.lines.next().expect("the program failed: see its error above").unwrap()
    }

    /// The last line that it prints.
    fn seen(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn python(name: &str) -> Command {
    let mut command = PythonSdk::installed().command("python");
    command.arg(project().join("e2e/tests/sdk_faults").join(format!("{name}.py")));
    command
}

fn node(name: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(project().join("e2e/tests/sdk_faults").join(format!("{name}.mjs")));
    command.arg(TypeScriptSdk::installed().folder());
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_costs_a_stream_but_no_process() {
    let data = DataFolder::with_templates().unwrap();
    let mut server = TestServer::start(data.path(), &["--standby", "1", "--blanks", "1"]).unwrap();
    let relay = switching_relay(&server.url).await;
    let mut programs =
        [python("restart"), node("restart")].map(|mut it| Program::start(&mut it, &relay.url, &server.key));
    for program in &mut programs {
        assert_eq!(program.line(), "ready");
    }

    server.kill().unwrap();
    relay.cut();
    drop(server);
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    relay.switch(&server.url);

    let [python, node] = &mut programs;
    let expected =
        json!({"stream": "ExecInterrupted", "partial": true, "lines": true, "exit_code": 7, "afterwards": "again\n"});
    assert_eq!(python.seen(), expected, "{}", server.said());
    let cut = "ExecInterrupted true";
    let expected =
        json!({"stream": cut, "onSocket": cut, "lines": true, "exitCode": 7, "resumed": 7, "afterwards": "again\n"});
    assert_eq!(node.seen(), expected, "{}", server.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_buffers_delays_answers_and_ends_endless_streams() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "1", "--blanks", "1"]).unwrap();
    let proxy = buffering_proxy(&server.url).await;
    let mut programs =
        [python("buffered"), node("buffered")].map(|mut it| Program::start(&mut it, &proxy, &server.key));
    let [python, node] = &mut programs;
    let mut expected = json!({
        "exec": "one\n", "stream": "one\ntwo\n", "process": 3, "endless": "RequestTimeout", "written": null,
        "read": 100_000,
    });
    assert_eq!(python.seen(), expected, "{}", server.said());
    expected["endless"] = json!("TimeoutError");
    // The server is asked without the upgrade, which the proxy does not pass on.
    expected["socket"] = json!("BadRequestError");
    assert_eq!(node.seen(), expected, "{}", server.said());
}
