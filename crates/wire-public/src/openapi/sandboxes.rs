//! Routes for creating, changing and deleting sandboxes.

use serde_json::json;

use super::operation::{Operation, query, route, shape, yes_or_no};
use crate::{
    CreateSandbox, EgressList, Event, EventList, Lifecycle, LogLine, MachineMetrics, Sandbox, SetEgress, SetLifecycle,
    Status,
};

const TAG: &str = "Sandboxes";
const WATCHING: &str = "Watching";

pub fn operations() -> Vec<Operation> {
    let text = json!({"type": "string"});
    let mut all = vec![
        route(TAG, "POST", "/v1/sandboxes")
            .once()
            .machine()
            .takes::<CreateSandbox>(json!({"template": "base", "ttl_seconds": 600}))
            .gives::<Sandbox>(201),
        route(TAG, "GET", "/v1/sandboxes").gives::<Vec<Sandbox>>(200),
        route(TAG, "GET", "/v1/sandboxes/{id}").gives::<Sandbox>(200),
        route(TAG, "DELETE", "/v1/sandboxes/{id}").machine().gives_nothing(204),
        route(TAG, "POST", "/v1/sandboxes/{id}/pause").machine().gives_nothing(204),
        route(TAG, "POST", "/v1/sandboxes/{id}/resume").machine().gives_nothing(204),
        route(TAG, "GET", "/v1/sandboxes/{id}/lifecycle").machine().gives::<Lifecycle>(200),
        route(TAG, "PATCH", "/v1/sandboxes/{id}/lifecycle")
            .machine()
            .may_take::<SetLifecycle>(json!({"ttl_seconds": 3600}))
            .gives::<Lifecycle>(200),
        route(TAG, "GET", "/v1/sandboxes/{id}/egress").ours().gives::<EgressList>(200),
        route(TAG, "PUT", "/v1/sandboxes/{id}/egress")
            .ours()
            .machine()
            .takes::<SetEgress>(json!({"egress_allowlist": ["pypi.org", "*.debian.org"]}))
            .gives::<EgressList>(200),
        route(WATCHING, "GET", "/v1/sandboxes/{id}/events")
            .notes("With `follow` the response is a stream of the same events as they happen.")
            .with(query("tail", json!({"type": "integer", "minimum": 0}), "Number of most recent events to return."))
            .with(query("since", json!({"type": "string", "format": "date-time"}), "Omits older events."))
            .with(yes_or_no("follow", "Keeps the stream open and sends new events."))
            .refuses(&[503])
            .gives::<EventList>(200)
            .gives_events(&[("event", shape::<Event>)]),
        route(WATCHING, "GET", "/v1/sandboxes/{id}/metrics").machine().gives::<MachineMetrics>(200),
        route(WATCHING, "GET", "/v1/sandboxes/{id}/logs")
            .notes("Plain text. With `follow` the response is an event stream of lines.")
            .with(yes_or_no("follow", "Keeps the stream open and sends new lines."))
            .with(query("stream", text, "Accepted without effect: a console has only one stream."))
            .with(query("tail", json!({"type": "integer", "minimum": 0}), "Number of most recent lines to return."))
            .refuses(&[502, 503, 504])
            .gives_content(200, "text/plain", json!({"type": "string"}))
            .gives_events(&[("line", shape::<LogLine>)]),
    ];
    for path in [
        "/v1/sandboxes/{id}/hibernate",
        "/v1/sandboxes/{id}/stop",
        "/v1/sandboxes/{id}/wake",
        "/v1/sandboxes/{id}/start",
    ] {
        all.push(route(TAG, "POST", path).machine().gives::<Status>(200));
    }
    all
}
