//! The published clients' routes for keys. The API specification reserves them for signed-in users,
//! which do not exist yet, so a caller with a key is refused. Such callers use `/v1/api-keys`.

use axum::extract::State;
use pandastack_door::http::Refused;
use pandastack_model::{Fault, FaultKind};

use super::caller::Authenticated;
use crate::Control;

/// Refuses every caller. A bad key is reported first.
pub async fn refuse(State(_): State<Control>, Authenticated(_): Authenticated) -> Refused {
    Fault::new(FaultKind::Unauthorized, "unauthorized", "jwt required").into()
}
