//! Running code. `sessions` opens and closes sessions that keep their state, `cell` runs code in a
//! session, and `once` runs code without one.

mod cell;
mod once;
mod sessions;

use axum::{
    Json,
    extract::{FromRequestParts, RawPathParams, State},
    http::{HeaderMap, Method, Uri, request::Parts},
};
use pandastack_door::http::{Answer, Refused, RequestCredential};
use pandastack_model::{CodeSessionId, Fault, FaultKind};
use pandastack_wire_public::CODE_LANGUAGES;

pub use cell::{cell, run_cell};
pub use once::once;
pub use sessions::{close, list, open, open_session};

use crate::Edge;

/// The `{session}` of a route. Text that is not an id is answered as an unknown session.
pub struct SessionPath(pub CodeSessionId);

impl<S: Send + Sync> FromRequestParts<S> for SessionPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let named = RawPathParams::from_request_parts(parts, state).await.ok();
        let text = named.iter().flatten().find_map(|(name, value)| (name == "session").then_some(value));
        text.and_then(|text| text.parse().ok()).map(Self).ok_or_else(|| no_session().into())
    }
}

/// The fault of an unknown session.
fn no_session() -> Fault {
    Fault::new(FaultKind::Missing, "session.not_found", "session not found")
}

/// Lists the languages that code can be run in.
pub async fn languages(
    State(edge): State<Edge>,
    method: Method,
    headers: HeaderMap,
    uri: Uri,
) -> Answer<Json<&'static [&'static str]>> {
    edge.control.authenticate(RequestCredential::read(&method, &headers, &uri).get()).await?;
    Ok(Json(CODE_LANGUAGES))
}
