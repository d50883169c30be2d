//! The published clients' routes for keys are for signed-in people, as the API's specification has
//! it, and there are no people yet: a caller with a key is refused. `/v1/api-keys` is for callers
//! with a key.

use axum::extract::State;
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_public::http::Refused;

use super::caller::Authenticated;
use crate::Control;

/// Refuses. A bad key hears so first.
pub async fn refuse(State(_): State<Control>, Authenticated(_): Authenticated) -> Refused {
    Fault::new(FaultKind::Unauthorized, "unauthorized", "jwt required").into()
}
