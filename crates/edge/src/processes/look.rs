//! Shows processes, and forgets them.

use axum::{Json, extract::State, http::StatusCode};
use pandastack_wire_public::{Process, http::Answer};

use super::{Named, render};
use crate::{Edge, access::Admitted};

/// Lists the processes that are remembered, oldest first.
pub async fn list(State(edge): State<Edge>, Admitted(id): Admitted) -> Answer<Json<Vec<Process>>> {
    Ok(Json(edge.host.processes(id).await?.into_iter().map(render).collect()))
}

/// Shows one.
pub async fn get(State(edge): State<Edge>, Named(id, process): Named) -> Answer<Json<Process>> {
    Ok(Json(render(edge.host.process(id, process).await?)))
}

/// Kills the whole group of a process that still runs, and forgets it with its output.
pub async fn forget(State(edge): State<Edge>, Named(id, process): Named) -> Answer<StatusCode> {
    edge.host.forget(id, process).await?;
    Ok(StatusCode::NO_CONTENT)
}
