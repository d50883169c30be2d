//! Shows and removes processes.

use axum::{Json, extract::State, http::StatusCode};
use pandastack_door::http::Answer;
use pandastack_wire_public::Process;

use super::{ProcessPath, render};
use crate::{Edge, access::ReachableSandbox};

/// Lists the processes that the guest still remembers, oldest first.
pub async fn list(State(edge): State<Edge>, ReachableSandbox(id): ReachableSandbox) -> Answer<Json<Vec<Process>>> {
    Ok(Json(edge.host.processes(id).await?.into_iter().map(render).collect()))
}

/// Shows one process.
pub async fn get(State(edge): State<Edge>, ProcessPath(id, process): ProcessPath) -> Answer<Json<Process>> {
    Ok(Json(render(edge.host.process(id, process).await?)))
}

/// Kills the process group if it still runs, and removes the process and its output.
pub async fn forget(State(edge): State<Edge>, ProcessPath(id, process): ProcessPath) -> Answer<StatusCode> {
    edge.host.forget(id, process).await?;
    Ok(StatusCode::NO_CONTENT)
}
