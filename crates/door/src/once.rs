//! Creating requests with an `Idempotency-Key`: the work is done once, the answer can be repeated.

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use pandastack_kit::Scope;
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::Caller;
use pandastack_wire_public::OTHER_REQUEST;
use sha2::{Digest, Sha256};

use crate::{
    backend::{AttemptState, DoorBackend, IdempotencyKey},
    http::{Refused, RequestCredential, whole_body},
    limits::{ATTEMPT_ANSWER_BYTES_MAX, ATTEMPT_KEY_BYTES_MAX},
    special::{CREATING, IN_GUEST},
};

const KEY: &str = "idempotency-key";
/// Header of a repeated answer.
const REPLAYED: &str = "idempotent-replayed";

/// Idempotency keys of the server's creating routes. Clones are the same.
#[derive(Clone)]
pub struct IdempotencyKeys {
    backend: Arc<dyn DoorBackend>,
    scope: Scope,
}

impl IdempotencyKeys {
    /// Requests that have begun go on in this scope.
    pub fn new(backend: Arc<dyn DoorBackend>, scope: Scope) -> Self {
        Self { backend, scope }
    }

    /// Supports idempotency keys on the creating requests of these routes. Goes inside their
    /// frame, which renders refusals.
    pub fn layer<S: Clone + Send + Sync + 'static>(self, routes: Router<S>) -> Router<S> {
        routes.layer(from_fn_with_state(self, once))
    }

    async fn answer(&self, caller: Caller, key: String, request: Request, next: Next) -> Result<Response, Fault> {
        let (mut parts, body) = request.into_parts();
        let body = whole_body(body).await?;
        let digest = request_digest(parts.uri.path(), &body);
        let in_guest = parts.extensions.get::<MatchedPath>().is_some_and(|route| IN_GUEST.contains(&route.as_str()));
        let caller = Caller { attempt: Some(key.into()), ..caller };
        parts.extensions.insert(caller.clone());
        let (path, request) = (parts.uri.path().to_owned(), Request::from_parts(parts, Body::from(body)));
        let backend = self.backend.clone();
        self.once(caller.clone(), digest, async move {
            if in_guest && let Err(fault) = backend.note_made_in_guest(&caller, path).await {
                return Refused::from(fault).into_response();
            }
            next.run(request).await
        })
        .await
    }

    /// Does the work once per idempotency key and repeats its answer. The work runs to its end even
    /// if the client disconnects, so that the key is always resolved.
    pub async fn once(
        &self,
        caller: Caller,
        digest: String,
        work: impl Future<Output = Response> + Send + 'static,
    ) -> Result<Response, Fault> {
        let Some(key) = caller.attempt else { return Ok(work.await) };
        let attempt = IdempotencyKey { workspace: caller.workspace, key: key.to_string() };
        let conflict = |code, text| Err(Fault::new(FaultKind::Conflict, code, text));
        match self.backend.begin_attempt(&attempt, &digest).await? {
            AttemptState::New => {}
            AttemptState::InFlight => {
                return conflict(
                    "idempotency.in_flight",
                    "a request with this idempotency key is in progress; try again later",
                );
            }
            AttemptState::Other => return conflict(OTHER_REQUEST, "this idempotency key was used for another request"),
            AttemptState::Answered { status, body: Some(body) } => return Ok(replay(status, body)),
            AttemptState::Answered { body: None, .. } => {
                return conflict(
                    "idempotency.answer_lost",
                    "a request with this idempotency key was started, but its response was not kept; check the result \
                     before you try again with a new key",
                );
            }
        }
        let keys = self.clone();
        let work = async move { keys.remember(&attempt, work.await).await };
        self.scope.run("keyed request", work).await.map_err(Fault::bug)?
    }

    /// Records an answer, or frees its key if nothing was made.
    async fn remember(&self, attempt: &IdempotencyKey, response: Response) -> Result<Response, Fault> {
        if let Some(refused) = response.extensions().get::<Refused>() {
            let (status, body) = refused.shown();
            match refused.fault() {
                // After these faults, something may have been made or may still be made.
                fault if fault.kind == FaultKind::Bug || fault.code == "sandbox.slow" => {
                    self.backend.answer_attempt(attempt, status, Some(&body)).await?;
                }
                _ => self.backend.drop_attempt(attempt).await?,
            }
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.map_err(Fault::bug)?;
        let kept = Some(&body[..]).filter(|body| body.len() <= ATTEMPT_ANSWER_BYTES_MAX);
        self.backend.answer_attempt(attempt, parts.status.as_u16(), kept).await?;
        Ok(Response::from_parts(parts, Body::from(body)))
    }
}

/// Passes a request on, or repeats its recorded answer.
async fn once(State(keys): State<IdempotencyKeys>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let creates = request.method() == Method::POST && route.is_some_and(|route| CREATING.contains(&route.as_str()));
    let Some(key) = request.headers().get(KEY).filter(|_| creates).cloned() else { return next.run(request).await };
    let caller = match request.extensions().get::<Caller>().cloned() {
        Some(caller) => Ok(caller),
        None => {
            let (method, headers) = (request.method(), request.headers());
            keys.backend.authenticate(RequestCredential::read(method, headers, request.uri()).get()).await
        }
    };
    let answered = async {
        let (caller, key) = (caller?, checked(&key)?);
        keys.answer(caller, key, request, next).await
    };
    answered.await.unwrap_or_else(|fault: Fault| Refused::from(fault).into_response())
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
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Fault> {
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
pub fn request_digest(path: &str, body: &[u8]) -> String {
    let digest = Sha256::new().chain_update(path).chain_update([0]).chain_update(body).finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
