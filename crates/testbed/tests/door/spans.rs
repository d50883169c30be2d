//! Spans of requests over the whole server: what a collector receives, and that no request waits
//! for one.

use pandastack_kit::trace::SpanQueue;
use pandastack_testbed::{CollectedSpan, Collector, CollectorMode, PATIENCE, wait_for};
use reqwest::Method;
use serde_json::{Value, json};

use crate::rig::{Door, answer, with_traced_door};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Makes a request with a trace parent.
async fn traced(door: &Door<'_>, method: Method, path: &str, body: Value) -> Value {
    let request = door.call(method, path).header("traceparent", format!("00-{TRACE}-{PARENT}-01")).json(&body);
    let (status, said) = answer(request).await;
    assert!((200..300).contains(&status), "{path}: {status} {said}");
    said
}

/// The span of the request with this method and route.
async fn request(collector: &Collector, name: &str) -> CollectedSpan {
    let span = collector.wait_span(name, |span| span.name == name).await;
    assert_eq!((span.trace.as_str(), span.parent.as_str(), span.kind), (TRACE, PARENT, 2), "{span:?}");
    span
}

/// The span of this name below another.
async fn below(collector: &Collector, above: &CollectedSpan, name: &str) -> CollectedSpan {
    let span = collector.wait_span(name, |span| span.name == name && span.parent == above.span).await;
    assert_eq!((span.trace.as_str(), span.kind), (TRACE, 1), "{span:?}");
    span
}

#[tokio::test]
async fn a_request_is_a_span_of_its_callers_trace_and_what_it_did_is_below_it() {
    let collector = Collector::start(CollectorMode::Takes).await.unwrap();
    with_traced_door(&collector.url, async |door| {
        let made = traced(door, Method::POST, "/v1/sandboxes", json!({"template": "mini", "persistent": true})).await;
        let id = made["id"].as_str().unwrap();
        traced(door, Method::POST, &format!("/v1/sandboxes/{id}/hibernate"), json!({})).await;
        let run = json!({"cmd": "printenv TRACEPARENT"});
        let said = traced(door, Method::POST, &format!("/v1/sandboxes/{id}/exec"), run).await;
        traced(door, Method::POST, &format!("/v1/sandboxes/{id}/fork"), json!({"count": 2})).await;
        traced(door, Method::DELETE, &format!("/v1/sandboxes/{id}"), json!({})).await;

        let create = request(&collector, "POST /v1/sandboxes").await;
        for (name, value) in [
            ("http.request.method", "POST"),
            ("http.route", "/v1/sandboxes"),
            ("url.path", "/v1/sandboxes"),
            ("http.response.status_code", "201"),
            ("pandastack.sandbox.id", id),
            ("pandastack.workspace.id", "default"),
        ] {
            assert_eq!(create.attributes.get(name).map(String::as_str), Some(value), "{create:?}");
        }
        assert!(!create.failed && create.attributes.contains_key("pandastack.request.id"));
        let launch = below(&collector, &create, "host.create").await;
        assert_eq!(launch.attributes["pandastack.sandbox.id"], id);
        below(&collector, &launch, "guest.start").await;

        let sleep = request(&collector, "POST /v1/sandboxes/{id}/hibernate").await;
        assert_eq!(sleep.attributes["pandastack.sandbox.id"], id);
        below(&collector, &sleep, "host.hibernate").await;

        let exec = request(&collector, "POST /v1/sandboxes/{id}/exec").await;
        let wanted = format!("00-{TRACE}-{}-01\n", exec.span);
        assert_eq!(said["stdout"], json!(wanted), "the command hears of the very span that was exported");
        let command = below(&collector, &exec, "guest.exec").await;
        assert_eq!(command.attributes["process.exit.code"], "0");
        let wake = below(&collector, &command, "sandbox.auto_wake").await;
        below(&collector, &wake, "machine.prepare").await;

        let fork = request(&collector, "POST /v1/sandboxes/{id}/fork").await;
        let forked = below(&collector, &fork, "host.fork").await;
        below(&collector, &forked, "host.seal").await;
        let remove = request(&collector, "DELETE /v1/sandboxes/{id}").await;
        below(&collector, &remove, "host.remove").await;
        let births = collector.spans().into_iter().filter(|span| span.parent == forked.span);
        assert_eq!(births.filter(|span| span.name == "host.create").count(), 2);

        let batch = &collector.sent()[0];
        assert_eq!((batch.path.as_str(), batch.headers["x-key"].as_str()), ("/v1/traces", "k 1"));
        assert_eq!(batch.headers["content-type"], "application/json");
        let resource = &batch.body["resourceSpans"][0]["resource"]["attributes"][0];
        assert_eq!(resource, &json!({"key": "service.name", "value": {"stringValue": "door"}}));
    })
    .await;
}

#[tokio::test]
async fn who_records_nothing_is_not_recorded_and_refusals_are_no_failures() {
    let collector = Collector::start(CollectorMode::Takes).await.unwrap();
    with_traced_door(&collector.url, async |door| {
        let id = door.sandbox().await;
        let path = format!("/v1/sandboxes/{id}/exec");
        let unsampled = door.call(Method::POST, &path).header("traceparent", format!("00-{TRACE}-{PARENT}-00"));
        let (status, said) = answer(unsampled.json(&json!({"cmd": "printenv TRACEPARENT"}))).await;
        assert!(status == 200 && said["stdout"].as_str().unwrap().ends_with("-00\n"), "{said}");
        door.is_well().await;
        let (status, _) = door.get("/v1/sandboxes/none").await;
        assert_eq!(status, 404);
        let (status, _) = answer(door.http.get(format!("{}/nowhere/secret", door.url))).await;
        assert_eq!(status, 404);
        door.get("/v1/p/secret/x").await;
    })
    .await;
    let spans = collector.spans();
    assert!(spans.iter().all(|span| span.trace != TRACE && !span.failed), "{spans:?}");
    let requests = spans.iter().filter(|span| span.kind == 2);
    let mut names: Vec<_> = requests.map(|span| span.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["GET", "GET /v1/p/{token}/{*path}", "GET /v1/sandboxes/{id}", "POST /v1/sandboxes"]);
    assert!(!format!("{spans:?}").contains("secret"), "what leads in is not told");
}

#[tokio::test]
async fn a_collector_that_is_away_or_stands_still_costs_no_request_and_no_end() {
    let stalling = Collector::start(CollectorMode::Stalls).await.unwrap();
    // The server at this address is gone.
    let away = Collector::start(CollectorMode::Takes).await.unwrap().url.clone();
    for url in [&stalling.url, &away] {
        let mut counts: Option<SpanQueue> = None;
        with_traced_door(url, async |door| {
            for _ in 0..40 {
                assert_eq!(door.get("/v1/sandboxes").await.0, 200);
            }
            counts = door.spans.clone();
        })
        .await;
        let counts = counts.unwrap().counts().clone();
        assert_eq!((counts.exported(), counts.dropped()), (0, 40), "{url}: all of them are accounted for");
    }
    assert!(!stalling.spans().is_empty(), "it was sent something");
}

#[tokio::test]
async fn a_batch_is_sent_again_if_that_may_help_and_what_is_refused_is_counted() {
    let collector = Collector::start(CollectorMode::Answers(400)).await.unwrap();
    with_traced_door(&collector.url, async |door| {
        let counted = async |line: &str| {
            let (_, text) = answer(door.http.get(format!("{}/metrics", door.url))).await;
            text.as_str().unwrap().lines().any(|said| said == line).then_some(())
        };
        door.get("/v1/sandboxes").await;
        let dropped = "pandastack_spans_total{of=\"dropped\"} 1";
        wait_for("a refused span is counted", PATIENCE, async || counted(dropped).await).await;
        assert_eq!(collector.sent().len(), 1, "asking again would not help");
        collector.set_mode(CollectorMode::Answers(503));
        door.get("/v1/sandboxes").await;
        wait_for("it is tried", PATIENCE, async || (collector.sent().len() > 1).then_some(())).await;
        collector.set_mode(CollectorMode::Takes);
        let exported = "pandastack_spans_total{of=\"exported\"} 1";
        wait_for("it is taken in the end", PATIENCE, async || counted(exported).await).await;
        counted(dropped).await.expect("nothing more was dropped");
    })
    .await;
}

#[tokio::test]
async fn an_event_names_the_trace_of_the_request_that_it_happened_for() {
    let receiver = Collector::start(CollectorMode::Takes).await.unwrap();
    let collector = Collector::start(CollectorMode::Takes).await.unwrap();
    with_traced_door(&collector.url, async |door| {
        door.make("/v1/webhooks", json!({"url": receiver.url, "events": ["*"]})).await;
        // Waits for each event before the next request: events of a sandbox that is deleted
        // meanwhile are not sent.
        let heard = async |kind: &str| {
            let of_kind = async || receiver.sent().into_iter().find(|sent| sent.body["type"] == kind);
            let sent = wait_for(kind, PATIENCE, of_kind).await;
            let cause = sent.headers.get("traceparent").unwrap_or_else(|| panic!("{kind} names no trace"));
            assert_eq!(&cause[3..35], TRACE, "{kind}");
            let span = cause[36..52].to_owned();
            collector.wait_span(kind, |seen| seen.span == span).await;
        };
        let made = traced(door, Method::POST, "/v1/sandboxes", json!({"template": "mini", "persistent": true})).await;
        heard("sandbox.running").await;
        let path = format!("/v1/sandboxes/{}", made["id"].as_str().unwrap());
        traced(door, Method::POST, &format!("{path}/hibernate"), json!({})).await;
        heard("sandbox.hibernated").await;
        // No explicit wake: the command wakes it.
        traced(door, Method::POST, &format!("{path}/exec"), json!({"cmd": "true"})).await;
        heard("sandbox.woken").await;
        traced(door, Method::DELETE, &path, json!({})).await;
        heard("sandbox.deleted").await;
    })
    .await;
}
