//! Runs before every route of the server: trace id, authentication, rate limit, metrics and audit
//! trail. Knows no resource.

mod meters;
mod rate;
mod record;
mod revoked;

use std::time::{Duration, Instant};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, Method},
    middleware::Next,
    response::Response,
};
pub use meters::{Meters, Reading};
use pandastack_door::{Connection, Place, occupy};
use pandastack_kit::trace::{self, Here};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::Caller;
use pandastack_wire_public::http::{TRACEPARENT, bearer, ensure_request_id, ensure_trace, refuse, trace_header};
pub use rate::Rates;
pub use record::SANDBOX;
use tracing::Instrument;

use crate::{
    Control,
    app::shown_prefix,
    limits::{AUDIT_PATH_BYTES_MAX, AUDIT_WAIT_MAX},
    store::AuditRow,
};

/// Route label of a request that matched no route.
const NO_ROUTE: &str = "none";

/// Public routes without a rate limit.
const EXEMPT: [&str; 8] =
    ["/healthz", "/v1/healthz", "/version", "/v1/version", "/metrics", "/v1/metrics", "/openapi.json", "/docs"];

/// Routes whose answers are too short to hold a connection open. They work even if all places are
/// taken.
const QUICK: [&str; 4] = ["/healthz", "/v1/healthz", "/version", "/v1/version"];

/// Routes of requests to a guest. They have no rate limit and no audit entry.
const PASSED: &str = "/v1/sandboxes/{id}/proxy/";

/// Handles one request.
pub async fn guard(State(control): State<Control>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let (id, trace) = (ensure_request_id(&mut request), ensure_trace(&mut request));
    drop_identity(request.headers_mut());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or(NO_ROUTE, MatchedPath::as_str).to_owned();
    let span = tracing::error_span!("request", trace = %id, trace_id = trace.id(), %method, route);
    let (here, mut work) = record::begin(&control, &request, &route, Here::silent(trace));
    let asking = if EXEMPT.contains(&route.as_str()) { None } else { asking(&control, &mut request).await };
    if let Some(asking) = asking.as_ref().filter(|_| work.is_recorded()) {
        work.note(record::WORKSPACE, asking.caller.workspace.0.clone());
        work.note(record::REQUEST, id.clone());
    }
    let passed = route.starts_with(PASSED);
    let entry = asking.as_ref().filter(|_| changes(&method) && !passed).map(|asking| AuditRow {
        workspace: asking.caller.workspace.clone(),
        at_ns: control.clock.now_ns(),
        request_id: id.clone(),
        method: method.as_str().to_owned(),
        route: route.clone(),
        path: request.uri().path().chars().take(AUDIT_PATH_BYTES_MAX).collect(),
        status: 0,
        duration_ms: 0,
        key_prefix: asking.key_prefix.clone(),
    });
    let paced = match &asking {
        Some(asking) if !passed => {
            control.rates.take(&control.settings.rate, &asking.caller.workspace, control.clock.now_ns())
        }
        _ => Ok(()),
    };
    let connection = request.extensions().get::<Connection>().cloned();
    let mut response = match paced.and_then(|()| place(&control, &route, asking.as_ref())) {
        Ok(place) => {
            let key = asking.as_ref().map(|asking| asking.caller.key.clone()).unwrap_or_default();
            let work = trace::within(Some(here.clone()), next.run(request).instrument(span));
            occupy(revoked::until_revoked(key, work, &id).await, place, connection)
        }
        Err(fault) => {
            if fault.kind == FaultKind::TooFast {
                control.meters.too_fast();
            }
            refuse(fault, &id)
        }
    };
    let (status, took) = (response.status().as_u16(), began.elapsed());
    record::end(work, &here, status);
    control.meters.answered(method.as_str(), &route, status, took);
    if !passed {
        response.headers_mut().insert(TRACEPARENT, trace_header(&trace));
    }
    tracing::info!(trace = %id, trace_id = trace.id(), %method, route, status, took_ms = millis(took), "answered");
    if let Some(entry) = entry {
        control.write_down(AuditRow { status, duration_ms: millis(took), ..entry }).await;
    }
    response
}

/// Takes a place for the request: one of its workspace's, or one that all unknown callers share.
fn place(control: &Control, route: &str, asking: Option<&Asking>) -> Result<Option<Place>, Fault> {
    if QUICK.contains(&route) {
        return Ok(None);
    }
    control.connections.take(asking.map(|asking| &asking.caller.workspace)).map(Some)
}

struct Asking {
    caller: Caller,
    key_prefix: String,
}

/// Authenticates the caller and tells the handler. The handler refuses a bad credential.
async fn asking(control: &Control, request: &mut Request) -> Option<Asking> {
    let token = bearer(request.headers(), request.uri())?;
    let caller = control.caller(Some(&token)).await.ok()?;
    request.extensions_mut().insert(caller.clone());
    Some(Asking { caller, key_prefix: shown_prefix(&token).to_owned() })
}

fn changes(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE)
}

/// Removes the headers by which our own servers describe a caller. A client that sends them would
/// forge an identity.
fn drop_identity(headers: &mut HeaderMap) {
    // Users may choose their organisation.
    const CHOICE: &str = "x-pandastack-org";
    let identity = |name: &&HeaderName| {
        let name = name.as_str();
        (name.starts_with("x-fcs-") || name.starts_with("x-pandastack-")) && name != CHOICE
    };
    let named: Vec<HeaderName> = headers.keys().filter(identity).cloned().collect();
    for name in named {
        headers.remove(name);
    }
}

impl Control {
    /// Queues an audit entry. Waits briefly for room; after that the request is only logged.
    async fn write_down(&self, entry: AuditRow) {
        if let Err(error) = self.audit_entries.send_timeout(entry, AUDIT_WAIT_MAX).await {
            tracing::warn!(%error, "could not add a request to the audit trail");
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_says_who_they_are_but_we() {
        let mut headers = HeaderMap::new();
        for name in [
            "x-fcs-workspace",
            "x-pandastack-user-id",
            "x-pandastack-auth-method",
            "x-pandastack-org-id",
            "x-pandastack-user-email",
            "x-pandastack-org",
            "x-request-id",
        ] {
            headers.append(name, "v".parse().unwrap());
        }
        headers.append("x-fcs-workspace", "w".parse().unwrap());
        drop_identity(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["x-pandastack-org", "x-request-id"]);
    }
}
