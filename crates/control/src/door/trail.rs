//! The audit trail of the caller's workspace.

use axum::{Json, extract::State, http::Uri};
use pandastack_door::AuditRow;
use pandastack_door::http::{Answer, query_time, query_value};
use pandastack_model::Fault;
use pandastack_wire_public::{AuditEntry, AuditTrail, rfc3339};

use super::caller::Authenticated;
use crate::{
    Control,
    limits::{AUDIT_AGE_MAX, AUDIT_LISTED_DEFAULT, AUDIT_LISTED_MAX},
};

/// Lists requests that changed something, newest first.
pub async fn list(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> Answer<Json<AuditTrail>> {
    let oldest_ns = control.clock.now_ns().saturating_sub(AUDIT_AGE_MAX.as_nanos() as u64);
    let since_ns = query_time(&uri, "since")?.unwrap_or(oldest_ns);
    let limit = query_value(&uri, "limit").and_then(|limit| limit.parse().ok()).unwrap_or(AUDIT_LISTED_DEFAULT);
    let audit_entries = control.store.audit_entries(&caller.workspace, since_ns, limit.min(AUDIT_LISTED_MAX)).await;
    let entries = audit_entries.map_err(Fault::from)?.into_iter().map(render).collect();
    Ok(Json(AuditTrail { entries, since: rfc3339(since_ns) }))
}

fn render(entry: AuditRow) -> AuditEntry {
    let AuditRow { workspace: _, at_ns, request_id, method, route, path, status, duration_ms, key_prefix } = entry;
    AuditEntry { time: rfc3339(at_ns), request_id, method, route, path, status, duration_ms, key_prefix }
}
