//! Runs before every route of the server: request id, trace, authentication, rate limit,
//! connection slot, metrics and audit entry. Knows no resource.

mod meters;
mod rate;
mod revoked;
mod span;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, Method},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
pub use meters::RequestMeters;
use pandastack_kit::{
    Clock,
    trace::{self, SpanQueue, TracePosition},
};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{Caller, WorkspaceRate};
pub use rate::{OperatorLimit, RateSettings, RequestRates};
pub use revoked::{EndlessStream, revoked_key};
pub use span::SANDBOX_ATTRIBUTE;
use tracing::Instrument;

use crate::{
    ProxyTrust,
    backend::{AuditRow, DoorBackend},
    http::{
        CSRF, RequestCredential, TRACEPARENT, ensure_request_id, ensure_trace, refuse, refuse_workspace, trace_header,
    },
    limits::AUDIT_PATH_BYTES_MAX,
    places::{Place, Places},
    serve::{ConnectionHandle, occupy},
    special::{BROKER, EXEMPT, FORWARDED, QUICK},
};

/// Route label of a request that matched no route.
const NO_ROUTE: &str = "none";

/// Status in the audit entry of a request whose client hung up before the answer.
const HUNG_UP: u16 = 499;

/// Number of bytes of a key that may be shown: its prefix `pds_`, and eight digits.
const SHOWN_BYTES: usize = 4 + 8;

/// Returns the part of a key that may be shown.
pub fn shown_prefix(key: &str) -> &str {
    key.get(..SHOWN_BYTES).unwrap_or_default()
}

/// The state of the middleware.
#[derive(Clone)]
pub struct Guard {
    pub backend: Arc<dyn DoorBackend>,
    pub clock: Arc<dyn Clock>,
    /// Slots for connections with a request in progress.
    pub connections: Places,
    pub rate: RateSettings,
    pub rates: Arc<RequestRates>,
    /// Whether a proxy names the addresses of clients.
    pub proxy: ProxyTrust,
    pub meters: RequestMeters,
    /// Queue for the spans of requests; `None` if spans are not exported.
    pub spans: Option<SpanQueue>,
}

impl Guard {
    /// Wraps all routes of the server.
    pub fn layer(self, app: Router) -> Router {
        app.layer(from_fn_with_state(self, guard))
    }

    /// Takes a place for the request: one of its workspace's, or one that all unknown callers
    /// share.
    fn place(&self, route: &str, caller: Option<&Caller>) -> Result<Option<Place>, Fault> {
        if QUICK.contains(&route) || route.starts_with(BROKER) {
            return Ok(None);
        }
        match caller {
            Some(caller) => self.connections.take_within(&caller.workspace, caller.connections_max).map(Some),
            None => self.connections.take(None).map(Some),
        }
    }

    /// Returns the request rate of a caller's workspace.
    fn rate_of(&self, caller: &Caller) -> RateSettings {
        match caller.rate {
            Some(WorkspaceRate { per_second, burst }) => {
                RateSettings { per_second, burst, operator: OperatorLimit::Limited }
            }
            None => self.rate,
        }
    }

    /// Authenticates the caller and tells the handler. The handler refuses a bad credential.
    async fn known_caller(&self, request: &mut Request) -> Option<KnownCaller> {
        let credential = RequestCredential::read(request.method(), request.headers(), request.uri());
        let caller = self.backend.authenticate(credential.get()).await.ok()?;
        request.extensions_mut().insert(caller.clone());
        let is_key = caller.user.is_none();
        let key_prefix = credential.get().token.filter(|_| is_key).map_or("", shown_prefix).to_owned();
        Some(KnownCaller { caller, key_prefix })
    }

    /// Makes the audit entry of a request that has not been answered yet.
    fn entry(&self, known: &KnownCaller, request: &Request, id: &str, route: &str) -> AuditRow {
        let (actor, actor_email) = match &known.caller.user {
            Some(user) => (format!("user:{}", user.id), user.email.clone()),
            None => (format!("key:{}", known.key_prefix), String::new()),
        };
        let address = self.proxy.client_address(request.headers(), request.extensions());
        AuditRow {
            workspace: known.caller.workspace.clone(),
            at_ns: self.clock.now_ns(),
            request_id: id.to_owned(),
            method: request.method().as_str().to_owned(),
            route: route.to_owned(),
            path: request.uri().path().chars().take(AUDIT_PATH_BYTES_MAX).collect(),
            status: 0,
            duration_ms: 0,
            key_prefix: known.key_prefix.clone(),
            actor,
            actor_email,
            address: address.map(|address| address.to_string()).unwrap_or_default(),
        }
    }
}

/// The audit entry of a request in progress. If the client hangs up, the request is dropped, and
/// the entry is recorded all the same.
struct OpenEntry {
    backend: Arc<dyn DoorBackend>,
    began: Instant,
    entry: Option<AuditRow>,
}

impl OpenEntry {
    async fn answered(mut self, status: u16) {
        if let Some(entry) = self.entry.take() {
            self.backend.record(AuditRow { status, duration_ms: millis(self.began.elapsed()), ..entry }).await;
        }
    }
}

impl Drop for OpenEntry {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            let duration_ms = millis(self.began.elapsed());
            self.backend.record_at_once(AuditRow { status: HUNG_UP, duration_ms, ..entry });
        }
    }
}

struct KnownCaller {
    caller: Caller,
    key_prefix: String,
}

/// Handles one request.
async fn guard(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let (id, trace) = (ensure_request_id(&mut request), ensure_trace(&mut request));
    drop_identity(request.headers_mut());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or(NO_ROUTE, MatchedPath::as_str).to_owned();
    let span = tracing::error_span!("request", trace = %id, trace_id = trace.id(), %method, route);
    let (here, mut work) = span::begin(guard.spans.as_ref(), &request, &route, TracePosition::silent(trace));
    let known = if names_no_caller(&route) { None } else { guard.known_caller(&mut request).await };
    if let Some(known) = known.as_ref().filter(|_| work.is_recorded()) {
        work.note(span::WORKSPACE, known.caller.workspace.0.clone());
        work.note(span::REQUEST, id.clone());
    }
    let forwarded = route.starts_with(FORWARDED);
    let changing = known.as_ref().filter(|_| changes(&method) && !forwarded);
    let entry = changing.map(|known| guard.entry(known, &request, &id, &route));
    let entry = OpenEntry { backend: guard.backend.clone(), began, entry };
    let paced = match &known {
        Some(KnownCaller { caller, .. }) if !forwarded => {
            guard.rates.take(&guard.rate_of(caller), &caller.workspace, guard.clock.now_ns())
        }
        _ => Ok(()),
    };
    let connection = request.extensions().get::<ConnectionHandle>().cloned();
    let mut response = match paced.and_then(|()| guard.place(&route, known.as_ref().map(|known| &known.caller))) {
        Ok(place) => {
            let key = known.as_ref().map(|known| known.caller.key.clone()).unwrap_or_default();
            let work = trace::within(Some(here.clone()), next.run(request).instrument(span));
            occupy(revoked::until_revoked(key, work, &id).await, place, connection)
        }
        Err(fault) => match &known {
            Some(KnownCaller { caller, .. }) if fault.kind == FaultKind::TooFast => {
                guard.meters.too_fast();
                refuse_workspace(fault, &id, &caller.workspace.0)
            }
            _ => refuse(fault, &id),
        },
    };
    let (status, took) = (response.status().as_u16(), began.elapsed());
    span::end(work, &here, status);
    guard.meters.answered(method.as_str(), &route, status, took);
    if !forwarded {
        if let Some(known) = &known {
            guard.backend.count_request(&known.caller.workspace, status, took);
        }
        response.headers_mut().insert(TRACEPARENT, trace_header(&trace));
    }
    tracing::info!(trace = %id, trace_id = trace.id(), %method, route, status, took_ms = millis(took), "answered");
    entry.answered(status).await;
    response
}

/// Whether the credential of a route is nobody's API key, so that it need not be looked up.
fn names_no_caller(route: &str) -> bool {
    EXEMPT.contains(&route) || route.starts_with(BROKER)
}

fn changes(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE)
}

/// Removes the headers by which our own servers describe a caller. A client that sends them would
/// forge an identity.
fn drop_identity(headers: &mut HeaderMap) {
    // Users may choose their organisation, and our own pages mark their requests.
    const CHOSEN: [&str; 2] = ["x-pandastack-org", CSRF];
    let identity = |name: &&HeaderName| {
        let name = name.as_str();
        (name.starts_with("x-fcs-") || name.starts_with("x-pandastack-")) && !CHOSEN.contains(&name)
    };
    let named: Vec<HeaderName> = headers.keys().filter(identity).cloned().collect();
    for name in named {
        headers.remove(name);
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
