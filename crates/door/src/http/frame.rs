//! The frame around every handler: request id, CORS headers, rendering of faults, and a catch for
//! panics.

use std::panic::AssertUnwindSafe;

use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use pandastack_model::{Fault, FaultKind};

use super::Refused;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_BYTES_MAX: usize = 64;
/// The policy of an answer that is no page: as a page it shows text, and can do nothing.
const INERT: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox");

/// The id of one request. It appears in logs, in error bodies and in the response.
#[derive(Clone, Debug)]
pub struct RequestId(pub String);

/// Puts the frame around every route of a router.
pub fn frame<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    router.layer(from_fn(surround))
}

/// Puts a smaller frame around routes whose answers come from a guest. It adds no CORS headers to
/// those answers and does not answer `OPTIONS` for the guest.
pub fn bare_frame<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    router.layer(from_fn(|request: Request, next: Next| pass(request, |request| next.run(request))))
}

/// Runs work whose answer comes from a guest. Adds the request id, renders our own faults and
/// catches panics.
pub async fn pass<W: Future<Output = Response>>(mut request: Request, work: impl FnOnce(Request) -> W) -> Response {
    let id = ensure_request_id(&mut request);
    let mut response = netted(work(request)).await;
    if let Some(refused) = response.extensions_mut().remove::<Refused>() {
        response = refused.render(&id);
        dress(response.headers_mut(), &id);
    }
    response
}

/// Returns the id of a request. Uses the caller's id if it is short printable ASCII, else creates
/// one.
pub fn ensure_request_id(request: &mut Request) -> String {
    if let Some(RequestId(id)) = request.extensions().get() {
        return id.clone();
    }
    let id = request_id(request.headers());
    request.extensions_mut().insert(RequestId(id.clone()));
    id
}

/// Renders a fault for code outside the frame.
pub fn refuse(fault: Fault, id: &str) -> Response {
    dressed(Refused::from(fault), id)
}

/// Renders the refusal of a workspace that sends too many requests.
pub fn refuse_workspace(fault: Fault, id: &str, workspace: &str) -> Response {
    dressed(Refused::of_workspace(fault, workspace), id)
}

fn dressed(refused: Refused, id: &str) -> Response {
    let mut response = refused.render(id);
    dress(response.headers_mut(), id);
    response
}

/// Answers a CORS preflight request.
pub fn preflight() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    dress(response.headers_mut(), "");
    response
}

/// Answers an unknown path.
pub async fn no_route() -> Refused {
    Fault::new(FaultKind::Missing, "route.not_found", "no such route; GET /openapi.json lists all routes").into()
}

/// Answers a known path with an unsupported method.
pub async fn no_method() -> Refused {
    let fault = Fault::new(FaultKind::Caller, "route.method_not_allowed", "this route does not support that method");
    Refused::with_status(StatusCode::METHOD_NOT_ALLOWED, fault)
}

async fn surround(mut request: Request, next: Next) -> Response {
    let id = ensure_request_id(&mut request);
    let mut response = if request.method() == Method::OPTIONS {
        StatusCode::NO_CONTENT.into_response()
    } else {
        netted(next.run(request)).await
    };
    if let Some(refused) = response.extensions_mut().remove::<Refused>() {
        let allow = response.headers_mut().remove(header::ALLOW);
        response = refused.render(&id);
        if let Some(allow) = allow {
            response.headers_mut().insert(header::ALLOW, allow);
        }
    }
    dress(response.headers_mut(), &id);
    response
}

/// Catches a panic, so that a bug in one handler fails only one request.
async fn netted(work: impl Future<Output = Response>) -> Response {
    let answer = AssertUnwindSafe(work).catch_unwind().await;
    answer.unwrap_or_else(|_| Refused::from(Fault::bug("a handler panicked")).into_response())
}

fn dress(headers: &mut HeaderMap, id: &str) {
    if let Some(value) = HeaderValue::from_str(id).ok().filter(|value| !value.is_empty()) {
        headers.insert(REQUEST_ID, value);
    }
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    set(header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    set(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        "authorization, content-type, accept, x-api-key, x-request-id, idempotency-key, traceparent, tracestate, \
         x-fcs-workspace, x-stub-user, x-pandastack-org, x-pandastack-user-id, x-pandastack-user-email, \
         x-pandastack-auth-method, mcp-protocol-version, mcp-method, mcp-name",
    );
    set(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        "x-request-id, retry-after, idempotent-replayed, traceparent, www-authenticate",
    );
    set(header::ACCESS_CONTROL_MAX_AGE, "600");
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // An answer may hold what a guest wrote, and it is on the origin of the dashboard.
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(INERT);
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// Returns the caller's id if it is short printable ASCII, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let theirs = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    match theirs {
        Some(id) if (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) => id.to_owned(),
        _ => {
            let mut bytes = [0; 8];
            // Without randomness the id is still usable, but less useful.
            let _ = getrandom::fill(&mut bytes);
            bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        }
    }
}
