//! Boot times of the caller's sandboxes.

use axum::{Json, extract::State, http::Uri};
use pandastack_door::http::query_value;
use pandastack_wire_public::BootStats;

use super::caller::Authenticated;
use crate::{Control, limits::BOOTS_PER_WORKSPACE_MAX};

/// Default number of samples in the list.
const RECENT: usize = 50;

/// Summarizes the last boots.
pub async fn boot(State(control): State<Control>, Authenticated(caller): Authenticated, uri: Uri) -> Json<BootStats> {
    let limit = query_value(&uri, "limit").and_then(|limit| limit.parse().ok()).unwrap_or(RECENT);
    Json(control.usage.boots.stats(&caller.workspace, limit.min(BOOTS_PER_WORKSPACE_MAX), control.clock.now_ns()))
}
