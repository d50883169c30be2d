//! The sandbox that a path names. Text that is no id names no sandbox: that is a miss, not a mistake worth telling apart.

use std::collections::HashMap;

use axum::{
    extract::{FromRequestParts, Path},
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
        // A route may name more than the sandbox.
        let named = Path::<HashMap<String, String>>::from_request_parts(parts, state).await;
        let id = named.ok().and_then(|Path(named)| named.get("id")?.parse().ok());
        id.map(SandboxPath).ok_or_else(|| Fault::no_sandbox().into())
    }
}
