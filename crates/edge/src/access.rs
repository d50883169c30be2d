//! Access checks. A handler that takes `ReachableSandbox` runs only if the caller may reach the
//! sandbox in the path.

use axum::{extract::FromRequestParts, http::request::Parts};
use pandastack_door::http::{Refused, RequestCredential, SandboxPath};
use pandastack_model::SandboxId;
use pandastack_wire_fleet::{Caller, CallerKey};

use crate::Edge;

/// Returns the caller's key, for work that outlives the request. Call it after `ReachableSandbox`.
pub fn key_of(parts: &Parts) -> CallerKey {
    parts.extensions.get::<Caller>().map(|caller| caller.key.clone()).unwrap_or_default()
}

/// A sandbox that the caller may reach.
pub struct ReachableSandbox(pub SandboxId);

impl FromRequestParts<Edge> for ReachableSandbox {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, edge: &Edge) -> Result<Self, Refused> {
        Ok(Self(admitted(parts, edge).await?.1))
    }
}

/// Returns the caller and the sandbox, if the caller may reach that sandbox.
pub async fn admitted(parts: &mut Parts, edge: &Edge) -> Result<(Caller, SandboxId), Refused> {
    let (caller, id) = who_and_what(parts, edge).await?;
    edge.control.admit(&caller, id).await?;
    Ok((caller, id))
}

/// A sandbox that the caller may view, in any state.
pub struct VisibleSandbox {
    pub id: SandboxId,
    pub caller: Caller,
}

impl FromRequestParts<Edge> for VisibleSandbox {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, edge: &Edge) -> Result<Self, Refused> {
        let (caller, id) = who_and_what(parts, edge).await?;
        edge.control.admit_look(&caller, id).await?;
        Ok(Self { id, caller })
    }
}

async fn who_and_what(parts: &mut Parts, edge: &Edge) -> Result<(Caller, SandboxId), Refused> {
    let caller = match parts.extensions.get::<Caller>() {
        // An outer layer has already authenticated the request.
        Some(caller) => caller.clone(),
        None => {
            let caller = edge.control.authenticate(RequestCredential::of(parts).get()).await?;
            parts.extensions.insert(caller.clone());
            caller
        }
    };
    let SandboxPath(id) = SandboxPath::from_request_parts(parts, edge).await?;
    Ok((caller, id))
}
