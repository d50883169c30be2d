//! The audit trail of the caller's workspace.

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderValue, Uri, header},
    response::{IntoResponse, Response},
};
use futures_util::stream::try_unfold;
use pandastack_door::{
    AuditRow,
    http::{Answer, query_time, query_value},
};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_public::{AuditEntry, AuditTrail, AuditedRequest, ExportedAuditEntry, rfc3339};

use super::caller::Authenticated;
use crate::{
    Control,
    limits::{AUDIT_LISTED_AGE_DEFAULT, AUDIT_LISTED_DEFAULT, AUDIT_LISTED_MAX},
    store::{AuditCursor, AuditFilter, ChainedEntry},
};

/// Lists requests that changed something, newest first.
pub async fn list(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> Answer<Json<AuditTrail>> {
    let text = |name| query_value(&uri, name).filter(|text| !text.is_empty());
    let day_ago_ns = control.clock.now_ns().saturating_sub(AUDIT_LISTED_AGE_DEFAULT.as_nanos() as u64);
    let since_ns = query_time(&uri, "since")?.unwrap_or(day_ago_ns);
    let filter = AuditFilter {
        since_ns,
        until_ns: query_time(&uri, "until")?,
        actor: text("actor"),
        method: text("method").map(|method| method.to_ascii_uppercase()),
    };
    let limit = text("limit").and_then(|limit| limit.parse().ok()).unwrap_or(AUDIT_LISTED_DEFAULT);
    let found = control.store.audit_entries(&caller.workspace, &filter, limit.min(AUDIT_LISTED_MAX)).await;
    let entries = found.map_err(Fault::from)?.into_iter().map(listed).collect();
    Ok(Json(AuditTrail { entries, since: rfc3339(since_ns) }))
}

/// Streams all entries, oldest first, one JSON object per line. With `after`, only the entries of
/// the chain past that number.
pub async fn export(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> Answer<Response> {
    let bad = |_| Fault::new(FaultKind::Caller, "audit.bad_number", "after must be the number of an entry");
    let cursor = match query_value(&uri, "after").filter(|text| !text.is_empty()) {
        Some(number) => AuditCursor::After(number.parse().map_err(bad)?),
        None => AuditCursor::start(),
    };
    // The first page is read here, so that a database that fails is an answer and no broken stream.
    let first = control.store.audit_page(&caller.workspace, cursor).await.map_err(Fault::from)?;
    let state = (control, caller.workspace, first);
    let pages = try_unfold(state, |(control, workspace, page)| async move {
        let Some((entries, cursor)) = page else { return Ok(None) };
        let lines = lines(entries)?;
        // A long export must not delay the server's shutdown.
        let token = control.scope.token();
        let next = tokio::select! {
            () = token.cancelled() => Err(std::io::Error::other("the server is shutting down")),
            next = control.store.audit_page(&workspace, cursor) => next.map_err(std::io::Error::other),
        };
        Ok::<_, std::io::Error>(Some((lines, (control, workspace, next?))))
    });
    let mut response = Body::from_stream(pages).into_response();
    let ndjson = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, ndjson);
    Ok(response)
}

fn lines(entries: Vec<ChainedEntry>) -> Result<String, std::io::Error> {
    let mut lines = String::new();
    for chained in entries {
        let ChainedEntry { id, number, previous_hash, hash, entry } = chained;
        let (at_ns, request) = (entry.at_ns.to_string(), render(entry));
        lines += &serde_json::to_string(&ExportedAuditEntry { id, number, request, at_ns, previous_hash, hash })?;
        lines.push('\n');
    }
    Ok(lines)
}

fn listed(chained: ChainedEntry) -> AuditEntry {
    let ChainedEntry { id, number, entry, .. } = chained;
    AuditEntry { id: number.unwrap_or(0), entry: id, number, request: render(entry) }
}

fn render(entry: AuditRow) -> AuditedRequest {
    let known = |text: String| Some(text).filter(|text| !text.is_empty());
    AuditedRequest {
        ts: rfc3339(entry.at_ns),
        workspace: entry.workspace.0,
        request_id: entry.request_id,
        method: entry.method,
        route: entry.route,
        path: entry.path,
        status: entry.status,
        duration_ms: entry.duration_ms,
        actor: known(entry.actor),
        actor_email: known(entry.actor_email),
        address: known(entry.address),
        key_prefix: entry.key_prefix,
    }
}
