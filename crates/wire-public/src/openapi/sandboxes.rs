//! Routes for creating, changing and deleting sandboxes.

use serde_json::json;

use super::operation::{Operation, kinds, ours, query, route, shape, yes_or_no};
use crate::{
    CreateSandbox, EgressList, Event, EventList, Lifecycle, LogLine, MachineMetrics, Sandbox, SetEgress, SetLifecycle,
    Status,
};

const TAG: &str = "Sandboxes";
const WATCHING: &str = "Watching";

pub fn operations() -> Vec<Operation> {
    let text = json!({"type": "string"});
    let switch = |path, about| route(TAG, "POST", path, about).machine().gives::<Status>(200);
    vec![
        route(TAG, "POST", "/v1/sandboxes", "Create a sandbox; returns when it is ready")
            .once()
            .machine()
            .takes::<CreateSandbox>(json!({"template": "base", "ttl_seconds": 600}))
            .gives::<Sandbox>(201),
        route(TAG, "GET", "/v1/sandboxes", "List sandboxes, newest first")
            .with(ours(query(
                "limit",
                json!({"type": "integer", "minimum": 1}),
                "Largest number of sandboxes, up to 1000.",
            )))
            .with(ours(query("after", json!({"type": "string"}), "The last sandbox of the page before.")))
            .with(ours(kinds("Machines of managed databases are left out unless this asks for them.")))
            .refuses(&[400, 404])
            .gives::<Vec<Sandbox>>(200),
        route(TAG, "GET", "/v1/sandboxes/{id}", "Show a sandbox").gives::<Sandbox>(200),
        route(TAG, "DELETE", "/v1/sandboxes/{id}", "Delete a sandbox").machine().gives_nothing(204),
        route(TAG, "POST", "/v1/sandboxes/{id}/pause", "Pause a sandbox: its CPUs stop, its memory stays")
            .machine()
            .gives_nothing(204),
        route(TAG, "POST", "/v1/sandboxes/{id}/resume", "Resume a paused sandbox").machine().gives_nothing(204),
        route(TAG, "GET", "/v1/sandboxes/{id}/lifecycle", "Show the idle limit and the idle time of a sandbox")
            .machine()
            .gives::<Lifecycle>(200),
        route(TAG, "PATCH", "/v1/sandboxes/{id}/lifecycle", "Change the idle limit of a sandbox")
            .machine()
            .may_take::<SetLifecycle>(json!({"ttl_seconds": 3600}))
            .gives::<Lifecycle>(200),
        route(TAG, "GET", "/v1/sandboxes/{id}/egress", "Show the egress rules of a sandbox")
            .ours()
            .gives::<EgressList>(200),
        route(TAG, "PUT", "/v1/sandboxes/{id}/egress", "Replace the egress rules of a sandbox, at once")
            .ours()
            .machine()
            .takes::<SetEgress>(json!({"egress_allowlist": ["pypi.org", "*.debian.org"]}))
            .gives::<EgressList>(200),
        route(WATCHING, "GET", "/v1/sandboxes/{id}/events", "List recent events of a sandbox, or follow them")
            .notes("With `follow` the response is a stream of the same events as they happen.")
            .with(query("tail", json!({"type": "integer", "minimum": 0}), "Number of most recent events to return."))
            .with(query("since", json!({"type": "string", "format": "date-time"}), "Omits older events."))
            .with(yes_or_no("follow", "Keeps the stream open and sends new events."))
            .refuses(&[503])
            .gives::<EventList>(200)
            .gives_events(&[("event", shape::<Event>)]),
        route(WATCHING, "GET", "/v1/sandboxes/{id}/metrics", "Current usage of a sandbox")
            .machine()
            .gives::<MachineMetrics>(200),
        route(WATCHING, "GET", "/v1/sandboxes/{id}/logs", "Show the console of a sandbox, or follow it")
            .notes("Plain text. With `follow` the response is an event stream of lines.")
            .with(yes_or_no("follow", "Keeps the stream open and sends new lines."))
            .with(query("stream", text, "Accepted without effect: a console has only one stream."))
            .with(query("tail", json!({"type": "integer", "minimum": 0}), "Number of most recent lines to return."))
            .refuses(&[502, 503, 504])
            .gives_content(200, "text/plain", json!({"type": "string"}))
            .gives_events(&[("line", shape::<LogLine>)]),
        switch("/v1/sandboxes/{id}/hibernate", "Hibernate a sandbox: memory and disk are saved, the machine ends"),
        switch("/v1/sandboxes/{id}/stop", "Hibernate a sandbox (same as `hibernate`)"),
        switch("/v1/sandboxes/{id}/wake", "Wake a hibernated sandbox; succeeds if it is awake"),
        switch("/v1/sandboxes/{id}/start", "Wake a hibernated sandbox (same as `wake`)"),
    ]
}
