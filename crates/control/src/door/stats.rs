//! Boot times of the caller's sandboxes.

use axum::{Json, extract::State, http::Uri};
use pandastack_door::http::{Answer, query_value};
use pandastack_wire_public::BootStats;

use super::caller::Authenticated;
use crate::Control;

/// Default number of samples in the list.
const RECENT: usize = 50;
/// Largest number of samples in the list.
const RECENT_MAX: usize = 500;

/// Summarizes the last boots.
pub async fn boot(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> Answer<Json<BootStats>> {
    // Boots are in the memory of the server with the host.
    control.need_host()?;
    let limit = query_value(&uri, "limit").and_then(|limit| limit.parse().ok()).unwrap_or(RECENT);
    let limit = limit.clamp(1, RECENT_MAX);
    Ok(Json(control.usage.boots.stats(&caller.workspace, limit, control.clock.now_ns())))
}
