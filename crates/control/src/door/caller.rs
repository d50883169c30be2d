//! Extractors of the caller of a request.

use std::sync::Arc;

use axum::{extract::FromRequestParts, http::request::Parts};
use pandastack_door::http::{Refused, RequestCredential};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{Caller, CallerUser};

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
        let credential = RequestCredential::of(parts);
        Ok(Self(control.caller(credential.get()).await?))
    }
}

/// A caller that is a person. An API key is refused: it belongs to a workspace, not to somebody.
pub struct Person {
    pub caller: Caller,
    pub user: Arc<CallerUser>,
}

impl FromRequestParts<Control> for Person {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, control: &Control) -> Result<Self, Refused> {
        let Authenticated(caller) = Authenticated::from_request_parts(parts, control).await?;
        match caller.user.clone() {
            Some(user) => Ok(Self { caller, user }),
            None => Err(Fault::new(FaultKind::Unauthorized, "unauthorized", "jwt required").into()),
        }
    }
}
