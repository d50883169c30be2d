//! The host's audit: compares its resources with its records.

use axum::{Json, extract::State};
use pandastack_door::http::Answer;
use pandastack_wire_fleet::AuditReport;
use pandastack_wire_public::Audit;

use super::caller::Authenticated;
use crate::Control;

/// Compares the host's resources with its records.
pub async fn audit(State(control): State<Control>, Authenticated(caller): Authenticated) -> Answer<Json<Audit>> {
    let AuditReport { machines, slots, disks, layers, volumes, leaks, repaired } = control.audit(&caller).await?;
    Ok(Json(Audit { machines, slots, disks, layers, volumes, leaks, repaired }))
}
