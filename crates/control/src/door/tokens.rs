//! Keys are managed by people, and a key is nobody: a caller with one is refused, whatever it asks here.

use axum::extract::State;
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_public::http::Refused;

use super::caller::Authenticated;
use crate::Control;

/// Refuses. A bad key hears so first.
pub async fn refuse(State(_): State<Control>, Authenticated(_): Authenticated) -> Refused {
    Fault::new(FaultKind::Unauthorized, "unauthorized", "jwt required").into()
}
