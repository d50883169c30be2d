//! Builds over HTTP: which are accepted, what they run and keep, and that a failed or interrupted
//! build leaves nothing.

use std::{sync::Arc, time::Duration};

use pandastack_kit::Scope;
use pandastack_model::{Fault, FaultKind, SandboxOrigin};
use pandastack_wire_fleet::stub::{StubFile, StubHost};
use reqwest::Method;
use serde_json::{Value, json};

use crate::rig::{OTHER_KEY, Rig, answer, open, wait_for};

const BUILD: &str = "/v1/templates/build";

/// One part of a multipart body: name, file name, contents.
pub type Part<'a> = (&'a str, Option<&'a str>, &'a [u8]);

fn multipart(parts: &[Part<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, contents) in parts {
        let file = file.map(|file| format!("; filename=\"{file}\"")).unwrap_or_default();
        let head = format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(contents);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--edge--\r\n");
    body
}

impl Rig {
    async fn post_parts(&self, parts: &[Part<'_>]) -> (u16, Value) {
        let request = self.call(Method::POST, BUILD).header("content-type", "multipart/form-data; boundary=edge");
        answer(request.body(multipart(parts))).await
    }

    async fn post_form(&self, form: &str) -> (u16, Value) {
        let request = self.call(Method::POST, BUILD).header("content-type", "application/x-www-form-urlencoded");
        answer(request.body(form.to_owned())).await
    }

    /// Builds and waits for the end.
    pub async fn built(&self, name: &str, dockerfile: &str, files: &[Part<'_>]) -> Value {
        let mut parts: Vec<Part<'_>> =
            vec![("name", None, name.as_bytes()), ("dockerfile", None, dockerfile.as_bytes())];
        parts.extend_from_slice(files);
        let (status, build) = self.post_parts(&parts).await;
        assert_eq!(status, 202, "{build}");
        self.ended(build["id"].as_str().unwrap()).await
    }

    async fn ended(&self, id: &str) -> Value {
        let path = format!("/v1/templates/builds/{id}");
        // The log ends after the row is written.
        self.log(id, "?follow=1").await;
        self.get(&path).await.1
    }

    pub async fn log(&self, id: &str, query: &str) -> String {
        let path = format!("/v1/templates/builds/{id}/logs{query}");
        let response = self.call(Method::GET, &path).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
        response.text().await.unwrap()
    }

    fn layers(&self) -> usize {
        self.host.layers.lock().unwrap().len()
    }

    fn commands(&self) -> usize {
        self.host.executed.lock().unwrap().len()
    }
}

#[tokio::test]
async fn a_dockerfile_becomes_a_template_that_sandboxes_start_from() {
    let rig = Rig::start().await;
    rig.listen(80);
    let dockerfile = "FROM mini\r\nENV A=1\r\nWORKDIR /srv\r\nCOPY sub/run.sh start\r\nRUN <<EOF\r\nsay \
        hello\r\nEOF\r\n\
                      USER ann\r\nEXPOSE 80\r\nCMD [\"x\"]\r\n";
    let build = rig.built("mine", dockerfile, &[("sub/run.sh", Some("run.sh"), b"#!/bin/sh\n")]).await;
    assert_eq!((&build["status"], &build["cpu"], &build["bytes"]), (&json!("done"), &json!(2), &json!(10)), "{build}");
    assert!(build["ended_at"].is_string() && build.get("error").is_none());
    let start = StubFile { mode: Some(0o755), bytes: b"#!/bin/sh\n".to_vec() };
    assert_eq!(rig.host.files.lock().unwrap()["/srv/start"], start);
    assert_eq!(rig.host.count(), 0, "no machine is left");
    let (_, template) = rig.get("/v1/templates/mine").await;
    assert_eq!((&template["is_global"], &template["workspace"]), (&json!(false), &json!("default")));
    assert_eq!(template["meta"]["workdir"], json!("/srv"));
    let (_, all) = rig.get("/v1/templates").await;
    let names: Vec<_> = all.as_array().unwrap().iter().map(|template| template["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["base", "mini", "mine"]);
    let defaults = rig.host.layer_defaults.lock().unwrap().values().next().unwrap().clone();
    assert_eq!((defaults.cwd.as_deref(), defaults.user.as_deref()), (Some("/srv"), Some("ann")));
    assert_eq!(defaults.env["A"], "1");

    let (status, sandbox) = rig.create(json!({"template": "mine"})).await;
    assert_eq!((status, &sandbox["template"], &sandbox["boot_mode"]), (201, &json!("mine"), &json!("snapshot-natid")));
    assert_eq!(sandbox["metadata"]["port.80"], json!("exposed"));
    let asked = rig.host.ensured.lock().unwrap()[&sandbox["id"].as_str().unwrap().parse().unwrap()].clone();
    assert!(
        matches!(asked.spec.origin, SandboxOrigin::Layer(layer) if rig.host.layers.lock().unwrap().contains_key(&layer))
    );
}

#[tokio::test]
async fn an_unchanged_prefix_is_not_run_again() {
    let rig = Rig::start().await;
    let first = "FROM mini\nRUN say one\nCOPY a /a\nRUN say two\n";
    let done = rig.built("x", first, &[("a", Some("a"), b"1")]).await;
    assert_eq!(done["status"], "done");
    let (ran, layers) = (rig.commands(), rig.layers());
    assert_eq!(layers, 4, "three steps and the template");

    let again = rig.built("y", first, &[("a", Some("a"), b"1")]).await;
    let log = rig.log(again["id"].as_str().unwrap(), "").await;
    assert_eq!(log.matches(" CACHED: ").count(), 3, "{log}");
    assert_eq!((rig.commands() - ran, rig.layers()), (1, 5), "only the proof runs");

    let changed = rig.built("z", first, &[("a", Some("a"), b"2")]).await;
    let log = rig.log(changed["id"].as_str().unwrap(), "").await;
    assert!(log.contains("step 1/3 CACHED: RUN say one") && log.contains("step 2/3: COPY a /a"), "{log}");
    assert_eq!(rig.host.count(), 0);
}

#[tokio::test]
async fn a_failing_step_is_named_and_leaves_nothing() {
    let rig = Rig::start().await;
    let failed = rig.built("x", "FROM mini\nRUN say fine\n\nRUN exit 3\nRUN say never\n", &[]).await;
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["error"], "step 2/3 (line 4: RUN exit 3) failed: exit status 3");
    let log = rig.log(failed["id"].as_str().unwrap(), "").await;
    assert!(log.contains("data: fine\n\n") && !log.contains("never\n"), "{log}");
    assert!(log.ends_with("event: done\ndata: end\n\n"), "{log}");
    assert_eq!((rig.host.count(), rig.layers()), (0, 1), "only the layer of the good step is kept");
    assert_eq!(rig.get("/v1/templates/x").await.0, 404);
    // The name is free again.
    assert_eq!(rig.built("x", "FROM mini\nRUN say fine\n", &[]).await["status"], "done");

    rig.host.fail_next("seal", Fault::new(FaultKind::Storage, "host.full", "insufficient host storage"));
    let failed = rig.built("y", "FROM mini\nRUN say other\n", &[]).await;
    assert!(failed["error"].as_str().unwrap().contains("insufficient host storage"), "{failed}");
    let failed = rig.built("y", "FROM nothing-here\n", &[]).await;
    assert!(failed["error"].as_str().unwrap().contains("line 1"), "{failed}");
    let failed = rig.built("y", "FROM mini\nCOPY b /\n", &[]).await;
    assert!(
        failed["error"].as_str().unwrap().contains("line 2: \"b\" does not exist in the build context"),
        "{failed}"
    );
    assert_eq!(rig.host.count(), 0);
}

#[tokio::test]
async fn logs_are_followed_and_replayed() {
    let rig = Rig::start().await;
    let text = "FROM mini\nRUN <<E\nsay end\nsay {\"error\":\"x\"}\nsay a\rb\u{2028}c\nE\n";
    let (_, build) = rig.post_parts(&[("name", None, b"x"), ("dockerfile", None, text.as_bytes())]).await;
    assert_eq!(build["status"], "queued");
    let id = build["id"].as_str().unwrap();
    let followed = rig.log(id, "?follow=1").await;
    assert_eq!(
        rig.get(&format!("/v1/templates/builds/{id}")).await.1["status"],
        "done",
        "the row is there before the end"
    );
    assert!(followed.contains("data: | end\n\ndata: | {\"error\":\"x\"}\n\ndata: a\n\ndata: b c\n\n"), "{followed}");
    assert_eq!(followed.matches("event: done").count(), 1);
    assert_eq!((rig.log(id, "").await, rig.log(id, "?follow=true").await), (followed.clone(), followed));
    let (_, builds) = rig.get("/v1/templates/builds").await;
    assert_eq!(builds.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_said_before_anything_is_made() {
    let rig = Rig::start().await;
    let code = async |parts: &[Part<'_>]| {
        let (status, body) = rig.post_parts(parts).await;
        (status, body["code"].as_str().unwrap().to_owned())
    };
    let file: Part<'_> = ("dockerfile", None, b"FROM mini");
    let refused = |status: u16, code: &str| (status, code.to_owned());
    assert_eq!(code(&[file]).await, refused(400, "build.no_name"));
    assert_eq!(code(&[("name", None, b"x")]).await, refused(400, "build.one_source"));
    assert_eq!(code(&[("name", None, b"mini"), file]).await, refused(403, "template.global"));
    assert_eq!(
        code(&[("name", None, b"x"), ("dockerfile", None, b"RUN x")]).await,
        refused(400, "build.bad_dockerfile")
    );
    let doubling = (1..40).map(|n| format!("ARG A{n}=$A{0}$A{0}\n", n - 1));
    let bomb = format!("ARG A0=x\n{}FROM mini$A39\n", doubling.collect::<String>());
    assert_eq!(
        code(&[("name", None, b"x"), ("dockerfile", None, bomb.as_bytes())]).await,
        refused(400, "build.dockerfile_too_large")
    );
    for path in ["/etc/x", "../x", "a/../../x"] {
        assert_eq!(code(&[("name", None, b"x"), file, (path, Some("x"), b"")]).await, refused(400, "build.bad_path"));
    }
    let twice: [Part<'_>; 4] = [("name", None, b"x"), file, ("a", Some("a"), b""), ("./a", Some("a"), b"")];
    assert_eq!(code(&twice).await, refused(400, "build.bad_path"));
    let large = vec![b'x'; 26 * 1024 * 1024];
    let parts: [Part<'_>; 4] = [("name", None, b"x"), file, ("a", Some("a"), &large), ("b", Some("b"), &large)];
    assert_eq!(code(&parts).await, refused(413, "build.too_large"));
    let (status, body) = rig.post_parts(&[("name", None, b"x"), ("from_snapshot", None, b"none")]).await;
    assert_eq!((status, &body["code"]), (404, &json!("snapshot.not_found")));
    let (status, _) = rig.send(Method::POST, BUILD, json!({"name": "x"})).await;
    assert_eq!(status, 400);
    let cut = rig.call(Method::POST, BUILD).header("content-type", "multipart/form-data; boundary=edge");
    assert_eq!(answer(cut.body("--edge\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx")).await.0, 400);
    assert_eq!(rig.post_form("name=x&dockerfile=FROM+mini&size_mb=99999999").await.0, 400);
    assert_eq!(rig.get("/v1/templates/builds").await.1, json!([]));
    let spool = rig.folder.path().join("builds/spool");
    assert_eq!(std::fs::read_dir(spool).unwrap().count(), 0, "refused uploads leave no files");
}

#[tokio::test]
async fn a_name_is_built_once_at_a_time_and_replaced_only_on_request() {
    let rig = Rig::start().await;
    let (status, build) = rig.post_form("name=x&size_mb=1024&dockerfile=FROM+mini%0ARUN+say+1%0A").await;
    assert_eq!(status, 202, "{build}");
    assert_eq!(rig.ended(build["id"].as_str().unwrap()).await["status"], "done");
    let (status, body) = rig.post_form("name=x&dockerfile=FROM+mini").await;
    assert_eq!((status, &body["code"]), (409, &json!("template.exists")));
    let layers = rig.layers();
    let request = rig.call(Method::POST, &format!("{BUILD}?replace=true"));
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    let (status, build) = answer(request.body("name=x&dockerfile=FROM+x%0AENV+A%3D1")).await;
    assert_eq!(status, 202);
    assert_eq!(rig.ended(build["id"].as_str().unwrap()).await["status"], "done");
    assert_eq!(rig.layers(), layers, "the old layer is given up");

    let (_, build) = rig.post_form("name=y&dockerfile=FROM+mini%0ARUN+hang").await;
    let (status, body) = rig.post_form("name=y&dockerfile=FROM+mini").await;
    assert_eq!((status, &body["code"]), (409, &json!("build.under_way")));
    let id = build["id"].as_str().unwrap().to_owned();
    wait_for("the build runs", async || rig.get(&format!("/v1/templates/builds/{id}")).await.1["status"] == "running")
        .await;
}

#[tokio::test]
async fn others_see_nothing_and_templates_can_be_deleted() {
    let rig = Rig::start().await;
    let build = rig.built("mine", "FROM mini\nENV A=1\n", &[]).await;
    let id = build["id"].as_str().unwrap();
    for path in
        [format!("/v1/templates/builds/{id}"), format!("/v1/templates/builds/{id}/logs"), "/v1/templates/mine".into()]
    {
        assert_eq!(rig.stranger(Method::GET, &path).await.0, 404, "{path}");
    }
    assert_eq!(rig.stranger(Method::GET, "/v1/templates/builds").await.1, json!([]));
    assert_eq!(rig.stranger(Method::DELETE, "/v1/templates/mine").await.0, 404);
    assert_eq!(rig.get("/v1/templates/builds/none").await.0, 404);
    assert_eq!(rig.delete("/v1/templates/mini").await, 403);
    assert_eq!(rig.delete("/v1/templates/none").await, 404);
    assert_eq!((rig.delete("/v1/templates/mine").await, rig.layers()), (204, 0));
    assert_eq!(rig.delete("/v1/templates/mine").await, 404);
    assert_eq!(rig.create(json!({"template": "mine"})).await.0, 400);
}

#[tokio::test]
async fn a_snapshot_becomes_a_template_of_its_own() {
    let rig = Rig::start().await;
    let sandbox = rig.created().await;
    let (_, snapshot) = rig.post(&format!("/v1/sandboxes/{sandbox}/snapshots")).await;
    let id = snapshot["id"].as_str().unwrap();
    let (status, build) = rig.post_form(&format!("name=frozen&from_snapshot={id}")).await;
    assert_eq!(status, 202, "{build}");
    assert_eq!(rig.ended(build["id"].as_str().unwrap()).await["status"], "done");
    assert_eq!(rig.delete(&format!("/v1/snapshots/{id}")).await, 204);
    assert_eq!(rig.create(json!({"template": "frozen"})).await.0, 201);
    assert_eq!((rig.host.count(), rig.layers()), (2, 1));
}

#[tokio::test]
async fn a_root_file_system_is_unpacked_in_a_machine_and_booted() {
    let rig = Rig::start().await;
    let root = vec![7; 300_000];
    let (status, build) = rig.post_parts(&[("name", None, b"r"), ("rootfs", Some("root.tar"), &root)]).await;
    assert_eq!(status, 202, "{build}");
    let build = rig.ended(build["id"].as_str().unwrap()).await;
    assert_eq!((&build["status"], &build["memory_mb"]), (&json!("done"), &json!(1024)), "{build}");
    assert_eq!((rig.host.count(), rig.layers(), rig.host.volumes.lock().unwrap().len()), (0, 1, 0));
    let tar = rig.host.executed.lock().unwrap()[0].1.clone();
    assert!(tar.stdin && format!("{:?}", tar.program).contains("tar"), "{tar:?}");

    let boots = Fault::new(FaultKind::Conflict, "template.no_boot", "the root file system does not boot: it is silent");
    rig.host.fail_next("boot", boots);
    let (_, build) = rig.post_parts(&[("name", None, b"s"), ("rootfs", Some("root.tar"), &root)]).await;
    let build = rig.ended(build["id"].as_str().unwrap()).await;
    assert!(build["error"].as_str().unwrap().contains("does not boot"), "{build}");
    assert_eq!((rig.host.count(), rig.layers(), rig.host.volumes.lock().unwrap().len()), (0, 1, 0));
}

#[tokio::test]
async fn a_stop_fails_the_build_and_takes_its_machine_along() {
    let rig = Rig::start().await;
    let (_, build) = rig.post_form("name=y&dockerfile=FROM+mini%0ARUN+say+1%0ARUN+hang").await;
    wait_for("the step hangs", async || rig.host.hung_commands() == 1).await;
    assert_eq!(rig.host.count(), 1);
    let rig = rig.restart_control().await;
    assert_eq!((rig.host.count(), rig.layers()), (0, 1));
    let id = build["id"].as_str().unwrap();
    let build = rig.ended(id).await;
    assert!(build["error"].as_str().unwrap().contains("stopped during the build"), "{build}");
    assert!(rig.log(id, "").await.contains("build failed: the server stopped"));
}

#[tokio::test]
async fn a_crash_is_cleaned_up_by_the_next_start() {
    let rig = Rig::start().await;
    let (_, build) = rig.post_form("name=y&dockerfile=FROM+mini%0ARUN+say+1%0ARUN+hang").await;
    wait_for("the step hangs", async || rig.host.hung_commands() == 1).await;
    // As after a crash: the first server hangs for ever and the second one finds its rows.
    let scope = Scope::new();
    let second = open(rig.folder.path(), rig.host.clone(), scope.clone()).await;
    assert_eq!((rig.host.count(), rig.layers()), (0, 1), "the layer of the finished step is still of use");
    let found = rig.get(&format!("/v1/templates/builds/{}", build["id"].as_str().unwrap())).await.1;
    assert_eq!(found["status"], "failed", "{found}");
    scope.close(Duration::from_secs(5)).await;
    second.close().await;
}

#[tokio::test]
async fn uploads_and_builds_have_limits() {
    let rig = Rig::start_in(tempfile::tempdir().unwrap(), Arc::new(StubHost::default())).await;
    for number in 0..8 {
        let (status, body) = rig.post_form(&format!("name=t{number}&dockerfile=FROM+mini%0ARUN+hang")).await;
        assert_eq!(status, 202, "{body}");
    }
    let (status, body) = rig.post_form("name=t9&dockerfile=FROM+mini%0ARUN+hang").await;
    assert_eq!((status, &body["code"]), (429, &json!("quota.builds")));
    wait_for("two run", async || rig.host.hung_commands() == 2).await;
    assert_eq!(rig.host.count(), 2, "the others wait");
}

#[tokio::test]
async fn builds_of_one_workspace_leave_room_for_another() {
    let rig = Rig::start().await;
    let form = |name: &str| format!("name={name}&dockerfile=FROM+mini%0ARUN+hang");
    for name in ["a", "b", "c"] {
        assert_eq!(rig.post_form(&form(name)).await.0, 202);
    }
    wait_for("two builds run", async || rig.host.hung_commands() == 2).await;
    let other = rig.http.post(format!("{}{BUILD}", rig.url)).bearer_auth(OTHER_KEY);
    let (status, build) =
        answer(other.header("content-type", "application/x-www-form-urlencoded").body(form("d"))).await;
    assert_eq!(status, 202, "{build}");
    wait_for("the other workspace's build runs", async || rig.host.hung_commands() == 3).await;
    let (_, builds) = rig.get("/v1/templates/builds").await;
    let queued = builds.as_array().unwrap().iter().filter(|build| build["status"] == "queued").count();
    assert_eq!(queued, 1, "its own third build waits: {builds}");
}
