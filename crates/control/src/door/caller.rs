//! Extractor of the caller of a request.

use axum::{extract::FromRequestParts, http::request::Parts};
use pandastack_door::http::{Refused, bearer};
use pandastack_wire_fleet::Caller;

use crate::Control;

/// A caller whose credential was checked.
pub struct Authenticated(pub Caller);

impl FromRequestParts<Control> for Authenticated {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, control: &Control) -> Result<Self, Refused> {
        // The guard has usually authenticated the request already.
        if let Some(caller) = parts.extensions.get::<Caller>() {
            return Ok(Self(caller.clone()));
        }
        let token = bearer(&parts.headers, &parts.uri);
        Ok(Self(control.caller(token.as_deref()).await?))
    }
}
