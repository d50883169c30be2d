//! Who may pass. A handler that asks for `Admitted` runs only for a caller who may reach the
//! sandbox in the path.

use axum::{extract::FromRequestParts, http::request::Parts};
use pandastack_model::SandboxId;
use pandastack_wire_fleet::{Caller, CallerKey};
use pandastack_wire_public::http::{Refused, SandboxPath, bearer};

use crate::Edge;

/// Gives the key that let a caller in, for what outlives the request. Asked after `Admitted`.
pub fn key_of(parts: &Parts) -> CallerKey {
    parts.extensions.get::<Caller>().map(|caller| caller.key.clone()).unwrap_or_default()
}

/// A sandbox that the caller may reach.
pub struct Admitted(pub SandboxId);

impl FromRequestParts<Edge> for Admitted {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, edge: &Edge) -> Result<Self, Refused> {
        Ok(Self(admitted(parts, edge).await?.1))
    }
}

/// Gives the caller and a sandbox that it may reach.
pub async fn admitted(parts: &mut Parts, edge: &Edge) -> Result<(Caller, SandboxId), Refused> {
    let (caller, id) = who_and_what(parts, edge).await?;
    edge.control.admit(&caller, id).await?;
    Ok((caller, id))
}

/// A sandbox that the caller may look at, whatever state it is in.
pub struct Visible {
    pub id: SandboxId,
    pub caller: Caller,
}

impl FromRequestParts<Edge> for Visible {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, edge: &Edge) -> Result<Self, Refused> {
        let (caller, id) = who_and_what(parts, edge).await?;
        edge.control.admit_look(&caller, id).await?;
        Ok(Self { id, caller })
    }
}

async fn who_and_what(parts: &mut Parts, edge: &Edge) -> Result<(Caller, SandboxId), Refused> {
    let caller = match parts.extensions.get::<Caller>() {
        // Whoever surrounds us has asked already.
        Some(caller) => caller.clone(),
        None => {
            let caller = edge.control.authenticate(bearer(&parts.headers, &parts.uri).as_deref()).await?;
            parts.extensions.insert(caller.clone());
            caller
        }
    };
    let SandboxPath(id) = SandboxPath::from_request_parts(parts, edge).await?;
    Ok((caller, id))
}
