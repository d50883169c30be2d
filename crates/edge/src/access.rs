//! Who may pass. A handler that asks for `Admitted` runs only for a caller who may reach the sandbox in the path.

use axum::{extract::FromRequestParts, http::request::Parts};
use pandastack_model::SandboxId;
use pandastack_wire_public::http::{Refused, SandboxPath, bearer};

use crate::Edge;

/// A sandbox that the caller may reach.
pub struct Admitted(pub SandboxId);

impl FromRequestParts<Edge> for Admitted {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, edge: &Edge) -> Result<Self, Refused> {
        let token = bearer(&parts.headers, &parts.uri);
        let caller = edge.control.authenticate(token.as_deref()).await?;
        let SandboxPath(id) = SandboxPath::from_request_parts(parts, edge).await?;
        edge.control.admit(&caller, id).await?;
        Ok(Self(id))
    }
}
