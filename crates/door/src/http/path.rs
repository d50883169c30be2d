//! The sandbox id of a path. Text that is not an id is answered like an unknown sandbox.

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};
use pandastack_model::{Fault, SandboxId};

use super::Refused;

/// The `{id}` of a route.
#[derive(Clone, Copy, Debug)]
pub struct SandboxPath(pub SandboxId);

impl<S: Send + Sync> FromRequestParts<S> for SandboxPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        // By name, because a route may have more parameters.
        let named = RawPathParams::from_request_parts(parts, state).await.ok();
        let id = named.iter().flatten().find_map(|(name, value)| (name == "id").then_some(value));
        id.and_then(|id| id.parse().ok()).map(SandboxPath).ok_or_else(|| Fault::no_sandbox().into())
    }
}
