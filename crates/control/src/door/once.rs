//! Creating requests with an `Idempotency-Key`: the work is done once, the answer can be repeated.

use axum::{
    body::{Body, Bytes},
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::Caller;
use pandastack_wire_public::{
    OTHER_REQUEST,
    http::{Refused, bearer, whole_body},
};
use sha2::{Digest, Sha256};

use crate::{
    Control,
    limits::{ATTEMPT_ANSWER_BYTES_MAX, ATTEMPT_KEY_BYTES_MAX, ATTEMPTS_REMEMBERED},
    store::{Attempt, Begun, Made},
};

const KEY: &str = "idempotency-key";
/// Header of a repeated answer.
const REPLAYED: &str = "idempotent-replayed";

/// The routes whose POST creates something. Builds handle their key themselves, because their body
/// is too large to buffer.
const CREATING: [&str; 10] = [
    "/v1/sandboxes",
    "/v1/sandboxes/{id}/fork",
    "/v1/sandboxes/{id}/fork-tree",
    "/v1/sandboxes/{id}/snapshots",
    "/v1/sandboxes/{id}/preview-token",
    "/v1/sandboxes/{id}/preview",
    "/v1/volumes",
    "/v1/webhooks",
    "/v1/sandboxes/{id}/processes",
    "/v1/sandboxes/{id}/repl/sessions",
];

/// Those among them that create something in a guest. It has no id before it is made, so it cannot
/// be undone by id.
const IN_GUEST: [&str; 2] = ["/v1/sandboxes/{id}/processes", "/v1/sandboxes/{id}/repl/sessions"];

/// Passes a request on, or repeats its recorded answer.
pub async fn once(State(control): State<Control>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let creates = request.method() == Method::POST && route.is_some_and(|route| CREATING.contains(&route.as_str()));
    let Some(key) = request.headers().get(KEY).filter(|_| creates).cloned() else { return next.run(request).await };
    let caller = match request.extensions().get::<Caller>().cloned() {
        Some(caller) => Ok(caller),
        None => control.caller(bearer(request.headers(), request.uri()).as_deref()).await,
    };
    let answered = async {
        let (caller, key) = (caller?, checked(&key)?);
        answer(&control, caller, key, request, next).await
    };
    answered.await.unwrap_or_else(|fault: Fault| Refused::from(fault).into_response())
}

async fn answer(
    control: &Control,
    caller: Caller,
    key: String,
    request: Request,
    next: Next,
) -> Result<Response, Fault> {
    let (mut parts, body) = request.into_parts();
    let body = whole_body(body).await?;
    let digest = digest(parts.uri.path(), &body);
    let in_guest = parts.extensions.get::<MatchedPath>().is_some_and(|route| IN_GUEST.contains(&route.as_str()));
    let caller = Caller { attempt: Some(key.into()), ..caller };
    parts.extensions.insert(caller.clone());
    let (place, request) = (parts.uri.path().to_owned(), Request::from_parts(parts, Body::from(body)));
    let noting = control.clone();
    control
        .once(caller.clone(), digest, async move {
            if in_guest && let Err(fault) = noting.note_made(&caller, Made::InGuest, &[place]).await {
                return Refused::from(fault).into_response();
            }
            next.run(request).await
        })
        .await
}

impl Control {
    /// Does the work once per idempotency key and repeats its answer. The work runs to its end even
    /// if the client disconnects, so that the key is always resolved.
    pub(super) async fn once(
        &self,
        caller: Caller,
        digest: String,
        work: impl Future<Output = Response> + Send + 'static,
    ) -> Result<Response, Fault> {
        let Some(key) = caller.attempt else { return Ok(work.await) };
        let attempt = Attempt { workspace: caller.workspace, key: key.to_string() };
        let now_ns = self.clock.now_ns();
        let since_ns = now_ns.saturating_sub(ATTEMPTS_REMEMBERED.as_nanos() as u64);
        let conflict = |code, text| Err(Fault::new(FaultKind::Conflict, code, text));
        match self.store.begin_attempt(&attempt, &digest, now_ns, since_ns).await? {
            Begun::New => {}
            Begun::InFlight => {
                return conflict(
                    "idempotency.in_flight",
                    "a request with this idempotency key is in progress; try again later",
                );
            }
            Begun::Other => return conflict(OTHER_REQUEST, "this idempotency key was used for another request"),
            Begun::Answered { status, body: Some(body) } => return Ok(replay(status, body)),
            Begun::Answered { body: None, .. } => {
                return conflict(
                    "idempotency.answer_lost",
                    "a request with this idempotency key was started, but its response was not kept; check the result \
                     before you try again with a new key",
                );
            }
        }
        let control = self.clone();
        let work = async move { control.remember(&attempt, work.await).await };
        self.scope.run("keyed request", work).await.map_err(Fault::bug)?
    }

    /// Records an answer, or frees its key if nothing was made.
    async fn remember(&self, attempt: &Attempt, response: Response) -> Result<Response, Fault> {
        if let Some(refused) = response.extensions().get::<Refused>() {
            let (status, body) = refused.shown();
            match refused.fault() {
                // After these faults, something may have been made or may still be made.
                fault if fault.kind == FaultKind::Bug || fault.code == "sandbox.slow" => {
                    self.store.answer_attempt(attempt, status, Some(&body)).await?;
                }
                _ => self.store.drop_attempt(attempt).await?,
            }
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.map_err(Fault::bug)?;
        let kept = Some(&body[..]).filter(|body| body.len() <= ATTEMPT_ANSWER_BYTES_MAX);
        self.store.answer_attempt(attempt, parts.status.as_u16(), kept).await?;
        Ok(Response::from_parts(parts, Body::from(body)))
    }
}

fn replay(status: u16, body: Vec<u8>) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Bytes::from(body)).into_response();
    let mut set = |name, value| response.headers_mut().insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, "application/json");
    set(header::HeaderName::from_static(REPLAYED), "true");
    response
}

/// Returns the idempotency key of a request, if it has one.
pub(super) fn key(headers: &HeaderMap) -> Result<Option<String>, Fault> {
    headers.get(KEY).map(checked).transpose()
}

fn checked(key: &HeaderValue) -> Result<String, Fault> {
    let text = key.to_str().ok().map(str::trim).filter(|key| (1..=ATTEMPT_KEY_BYTES_MAX).contains(&key.len()));
    text.map(str::to_owned).ok_or_else(|| {
        let text = format!("an idempotency key must have 1 to {ATTEMPT_KEY_BYTES_MAX} printable ASCII characters");
        Fault::new(FaultKind::Caller, "idempotency.bad_key", text)
    })
}

/// Digest that identifies a request.
pub(super) fn digest(path: &str, body: &[u8]) -> String {
    let digest = Sha256::new().chain_update(path).chain_update([0]).chain_update(body).finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
