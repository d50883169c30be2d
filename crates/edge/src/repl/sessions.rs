//! Opens, lists and closes code sessions. They exist only in the guest; the edge keeps no state.

use axum::{Json, body::Body, extract::State, http::StatusCode};
use pandastack_door::http::{Answer, optional_json_body};
use pandastack_model::{CodeLanguage, CodeSessionId, Fault, SandboxId};
use pandastack_wire_fleet::CodeSessionView;
use pandastack_wire_public::{CodeSession, OpenSession, rfc3339};

use super::SessionPath;
use crate::{Edge, access::ReachableSandbox};

/// Opens a session and answers when it can run cells.
pub async fn open(
    State(edge): State<Edge>,
    ReachableSandbox(id): ReachableSandbox,
    body: Body,
) -> Answer<(StatusCode, Json<CodeSession>)> {
    let language = optional_json_body::<OpenSession>(body).await?.checked()?;
    let view = open_session(&edge, id, CodeSessionId::random(), language).await?;
    Ok((StatusCode::CREATED, Json(render(id, view))))
}

/// Lists the sessions of a sandbox, oldest first.
pub async fn list(State(edge): State<Edge>, ReachableSandbox(id): ReachableSandbox) -> Answer<Json<Vec<CodeSession>>> {
    let sessions = edge.host.code_sessions(id).await?;
    Ok(Json(sessions.into_iter().map(|view| render(id, view)).collect()))
}

/// Closes a session and ends the code that runs in it.
pub async fn close(
    State(edge): State<Edge>,
    ReachableSandbox(id): ReachableSandbox,
    SessionPath(session): SessionPath,
) -> Answer<StatusCode> {
    edge.host.close_code(id, &session).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Opens the session with this id, or returns the existing one. If the client disconnects
/// meanwhile, the new session is ended.
pub async fn open_session(
    edge: &Edge,
    id: SandboxId,
    session: CodeSessionId,
    language: CodeLanguage,
) -> Result<CodeSessionView, Fault> {
    edge.host.open_code(id, &session, language).await
}

fn render(sandbox: SandboxId, view: CodeSessionView) -> CodeSession {
    let CodeSessionView { id, language, created_ms, cells } = view;
    CodeSession {
        id: id.to_string(),
        session_id: id.to_string(),
        sandbox_id: sandbox.to_string(),
        language: language.name().to_owned(),
        created_at: rfc3339(created_ms.saturating_mul(1_000_000)),
        cells,
    }
}
