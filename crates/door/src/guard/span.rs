//! The span of a request, with the attribute names of OpenTelemetry. Our own names begin with
//! `pandastack.`.

use axum::extract::Request;
use pandastack_kit::trace::{OpenSpan, SpanKind, SpanQueue, TracePosition};
use pandastack_model::SandboxId;

use super::{NO_ROUTE, meters::known};
use crate::special::{EXEMPT, FORWARDED, SIGNED};

/// Name that the specification gives to an unknown method.
const OTHER_METHOD: &str = "_OTHER";

/// Returns the trace context of a request, and its span. Exempt routes are not recorded, because
/// probes would be most of the spans.
pub fn begin(
    spans: Option<&SpanQueue>,
    request: &Request,
    route: &str,
    here: TracePosition,
) -> (TracePosition, OpenSpan) {
    let spans = spans.filter(|_| !EXEMPT.contains(&route)).cloned();
    if spans.is_none() {
        return (here, OpenSpan::default());
    }
    let here = TracePosition::new(here.trace(), spans);
    let method = match known(request.method().as_str()) {
        "other" => OTHER_METHOD,
        known => known,
    };
    let name = if route == NO_ROUTE { method.to_owned() } else { format!("{method} {route}") };
    let mut work = here.work(name, SpanKind::Server);
    if !work.is_recorded() {
        return (here, work);
    }
    work.note("http.request.method", method);
    work.note("url.scheme", "http");
    if route != NO_ROUTE {
        work.note("http.route", route);
        // The rest of a proxied path belongs to the guest.
        if !route.starts_with(SIGNED) && !route.starts_with(FORWARDED) {
            work.note("url.path", request.uri().path());
        }
    }
    if let Some(id) = sandbox(route, request.uri().path()) {
        work.note(SANDBOX_ATTRIBUTE, id.to_string());
    }
    // The default, until there is an answer: a client may disconnect.
    work.fail(&"ended before the response");
    (here, work)
}

/// Attribute of the sandbox that a span is about.
pub const SANDBOX_ATTRIBUTE: &str = "pandastack.sandbox.id";
pub const WORKSPACE: &str = "pandastack.workspace.id";
pub const REQUEST: &str = "pandastack.request.id";

/// Records how a request was answered. A refusal is not an error of the server.
pub fn end(mut work: OpenSpan, here: &TracePosition, status: u16) {
    if !work.is_recorded() {
        return;
    }
    for (name, note) in here.take_notes() {
        work.note(name, note);
    }
    work.note("http.response.status_code", i64::from(status));
    if status >= 500 {
        work.note("error.type", status.to_string());
        work.fail(&format!("status {status}"));
    } else {
        work.succeed();
    }
}

/// Finds the sandbox that a path names.
fn sandbox(route: &str, path: &str) -> Option<SandboxId> {
    let named = route.split('/').zip(path.split('/')).skip_while(|(name, _)| *name != "sandboxes").nth(1)?;
    match named {
        ("{id}", id) => id.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_its_sandbox() {
        let id = SandboxId::random();
        let (route, path) = ("/v1/sandboxes/{id}/exec", format!("/v1/sandboxes/{id}/exec"));
        assert_eq!(sandbox(route, &path), Some(id));
        assert_eq!(sandbox("/v1/sandboxes/{id}", &format!("/v1/sandboxes/{id}")), Some(id));
        assert_eq!(sandbox(route, "/v1/sandboxes/nonsense/exec"), None);
        assert_eq!(sandbox("/v1/sandboxes", "/v1/sandboxes"), None);
        assert_eq!(sandbox("/v1/webhooks/{id}", &format!("/v1/webhooks/{id}")), None);
        assert_eq!(sandbox(NO_ROUTE, &path), None);
    }
}
