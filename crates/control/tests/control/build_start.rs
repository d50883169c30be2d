//! The command of a template: started before the template is sealed, replaced by a build upon it,
//! and never a reason to fail a build.

use pandastack_model::GuestPort;
use pandastack_wire_fleet::{ListeningPort, Program};
use serde_json::json;

use crate::rig::Rig;

impl Rig {
    /// Makes every machine report a listening port.
    pub fn listen(&self, port: i64) {
        let port = ListeningPort { port: GuestPort::try_from(port).unwrap(), loopback_only: false, process: None };
        self.host.listening.lock().unwrap().push(port);
    }

    /// Builds, and returns the log and the template.
    async fn made(&self, name: &str, dockerfile: &str) -> (String, serde_json::Value) {
        let build = self.built(name, dockerfile, &[]).await;
        let log = self.log(build["id"].as_str().unwrap(), "").await;
        assert_eq!(build["status"], "done", "{build} {log}");
        (log, self.get(&format!("/v1/templates/{name}")).await.1)
    }

    /// Lists the processes in a new sandbox of a template.
    async fn runs(&self, template: &str) -> Vec<String> {
        let (status, sandbox) = self.create(json!({"template": template})).await;
        assert_eq!(status, 201, "{sandbox}");
        self.host.running_commands(sandbox["id"].as_str().unwrap())
    }
}

#[tokio::test]
async fn a_templates_command_runs_in_every_sandbox_of_it() {
    let rig = Rig::start().await;
    rig.listen(80);
    let dockerfile =
        "FROM mini\nENV A=1\nWORKDIR /srv\nUSER ann\nEXPOSE 80 443\nENTRYPOINT [\"serve\"]\nCMD [\"all\"]\n";
    let (log, template) = rig.made("web", dockerfile).await;
    for line in ["starting the template's command: serve all", "serve all says so", "the command listens on port 80"] {
        assert!(log.contains(line), "{line}: {log}");
    }
    let asked = rig.host.spawned.lock().unwrap()[0].clone();
    assert_eq!(asked.exec.program, Program::Argv(vec!["serve".to_owned(), "all".to_owned()]));
    assert_eq!((asked.exec.cwd.as_deref(), asked.exec.user.as_deref()), (Some("/srv"), Some("ann")));
    assert_eq!(
        (asked.exec.env["A"].as_str(), asked.exec.deadline, asked.tag.as_deref()),
        ("1", None, Some("template.start"))
    );
    assert_eq!(template["meta"]["started"], true);
    assert_eq!(rig.runs("web").await, ["serve all"]);
}

#[tokio::test]
async fn what_is_built_upon_it_runs_its_own_command_only() {
    let rig = Rig::start().await;
    rig.listen(80);
    rig.made("web", "FROM mini\nEXPOSE 80\nCMD [\"serve\", \"one\"]\n").await;
    rig.made("web-2", "FROM web\nRUN say more\nCMD [\"serve\", \"two\"]\n").await;
    assert_eq!(rig.runs("web-2").await, ["serve two"]);
    assert_eq!(rig.host.calls_of("signal"), ["signal 1 15"], "it was asked to end");
    // Without a new command the same one runs once, not twice.
    let (_, template) = rig.made("web-3", "FROM web\n").await;
    assert_eq!((rig.runs("web-3").await, &template["meta"]["started"]), (vec!["serve one".to_owned()], &json!(true)));
    assert_eq!(rig.runs("web").await, ["serve one"]);
}

#[tokio::test]
async fn a_command_that_ends_or_cannot_start_is_no_failure() {
    let rig = Rig::start().await;
    let (log, template) = rig.made("shell", "FROM mini\nEXPOSE 80\nCMD [\"exit\", \"3\"]\n").await;
    assert!(log.contains("note: the command ended with exit status 3") && log.contains("exit 3 says so"), "{log}");
    assert_eq!((&template["meta"]["cmd"], template["meta"].get("started")), (&json!(["exit", "3"]), None));
    let (log, _) = rig.made("gone", "FROM mini\nCMD [\"missing\"]\n").await;
    assert!(log.contains("note: the command cannot be started (no such program)"), "{log}");
    assert_eq!(rig.runs("gone").await, [""; 0]);
}

#[tokio::test]
async fn a_build_may_leave_the_command_alone() {
    let rig = Rig::start().await;
    rig.listen(80);
    rig.made("web", "FROM mini\nEXPOSE 80\nCMD [\"serve\"]\n").await;
    let build = rig.built("quiet", "FROM web\n", &[("start", None, b"false")]).await;
    let log = rig.log(build["id"].as_str().unwrap(), "").await;
    assert!(build["status"] == "done" && log.contains("the template's command is not started: serve"), "{log}");
    assert_eq!(rig.runs("quiet").await, [""; 0], "what came with its base does not go on either");
    let (_, template) = rig.get("/v1/templates/quiet").await;
    assert_eq!((&template["meta"]["cmd"], template["meta"].get("started")), (&json!(["serve"]), None));
    assert_eq!(rig.host.spawned.lock().unwrap().len(), 1);
}
