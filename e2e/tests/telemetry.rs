//! Spans with the built server and a real machine: a command in a guest has the trace that a
//! collector receives, the last spans are sent at a stop, and an invalid collector address fails
//! the start.

use std::process::Command;

use pandastack_client::{
    Client, Config,
    wire::{CreateSandbox, ExecRequest},
};
use pandastack_testbed::{Collector, CollectorMode, DataFolder, TestServer, built};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_in_a_guest_hears_of_a_span_that_is_exported() {
    let collector = Collector::start(CollectorMode::Takes).await.unwrap();
    let data = DataFolder::with_templates().unwrap();
    let mut server = TestServer::start_with(data.path(), |command| {
        command.args(["--no-config", "--standby", "0", "--on-stop", "remove", "--otlp-endpoint", &collector.url]);
        // The flag takes precedence.
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "nonsense");
        command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=k%201").env("OTEL_SERVICE_NAME", "boxes");
    })
    .unwrap();
    let client = client(&server);
    let ask = CreateSandbox { template: Some("mini".into()), persistent: Some(true), ..CreateSandbox::default() };
    let id = client.create(&ask).await.unwrap().id;
    client.hibernate(&id).await.unwrap();
    let run = ExecRequest { cmd: Some("printenv TRACEPARENT".into()), ..ExecRequest::default() };
    let said = client.exec(&id, &run).await.unwrap().stdout;
    let (trace, span) = (said[3..35].to_owned(), said[36..52].to_owned());

    let request = collector.wait_span("the request's span", |seen| seen.span == span).await;
    assert_eq!((request.trace.as_str(), request.name.as_str()), (trace.as_str(), "POST /v1/sandboxes/{id}/exec"));
    assert_eq!(request.attributes["pandastack.sandbox.id"], id);
    let command = collector.wait_span("its command", |seen| seen.name == "guest.exec" && seen.parent == span).await;
    let wake = |name: &str| collector.spans().into_iter().find(|seen| seen.name == name && seen.trace == trace);
    assert_eq!(wake("sandbox.auto_wake").unwrap().parent, command.span, "{:?}", collector.spans());
    assert_eq!(wake("guest.start").unwrap().attributes["pandastack.boot.mode"], "wake");

    client.get(&id).await.unwrap();
    assert_eq!(server.stop().unwrap(), Some(0));
    let last = collector.spans().into_iter().find(|seen| seen.name == "GET /v1/sandboxes/{id}");
    assert!(last.is_some(), "what was under way is sent at the end: {}", server.said());
    let batch = &collector.sent()[0];
    assert_eq!((batch.path.as_str(), batch.headers["x-key"].as_str()), ("/v1/traces", "k 1"));
    assert!(batch.body.to_string().contains("boxes"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_stands_still_holds_up_neither_a_request_nor_the_stop() {
    let collector = Collector::start(CollectorMode::Stalls).await.unwrap();
    let data = DataFolder::with_templates().unwrap();
    let arguments = ["--standby", "0", "--blanks", "0", "--otlp-endpoint", &collector.url];
    let mut server = TestServer::start(data.path(), &arguments).unwrap();
    let client = client(&server);
    for _ in 0..20 {
        assert!(client.list().await.unwrap().is_empty());
    }
    collector.wait_span("it is sent spans", |seen| seen.name == "GET /v1/sandboxes").await;
    assert!(client.list().await.unwrap().is_empty());
    assert_eq!(server.stop().unwrap(), Some(0));
}

#[test]
fn a_collector_that_cannot_be_meant_is_found_out_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let refused = |configure: &dyn Fn(&mut Command)| {
        let mut command = Command::new(built("pandastack"));
        command.args(["up", "--no-config", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&data);
        configure(&mut command);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused(&|command| {
        command.args(["--otlp-endpoint", "localhost:4318"]);
    });
    assert!(said.contains("the OTLP endpoint \"localhost:4318\" cannot be used"), "{said}");
    let said = refused(&|command| {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://collector:4317");
    });
    assert!(said.contains("must begin with https:// or http://"), "{said}");
    let said = refused(&|command| {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector").env("OTEL_EXPORTER_OTLP_HEADERS", "secret");
    });
    assert!(said.contains("OTEL_EXPORTER_OTLP_HEADERS") && !said.contains("secret"), "{said}");
    assert!(!data.exists(), "nothing was begun");
}

fn client(server: &TestServer) -> Client {
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    Client::new(config.with_key(server.key.clone())).unwrap()
}
