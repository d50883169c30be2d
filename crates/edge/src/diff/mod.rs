//! Compares two sandboxes: their files and their processes. Reads both guests within limits, and
//! changes nothing.

mod files;
mod processes;

use std::sync::Arc;

use axum::{
    Json,
    extract::{FromRequestParts, State},
    http::{Uri, request::Parts},
};
use pandastack_door::http::{Answer, Refused, query_value};
use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_public::{BranchDiff, checked_path};
use tokio::sync::Semaphore;

use crate::{Edge, access::admitted, limits::DIFFS_AT_ONCE};

/// Turns of comparisons. Each holds the listings of two guests.
#[derive(Clone)]
pub struct DiffTurns(Arc<Semaphore>);

impl Default for DiffTurns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(DIFFS_AT_ONCE)))
    }
}

/// Two sandboxes that the caller may reach.
pub struct ReachablePair {
    here: SandboxId,
    there: SandboxId,
}

impl FromRequestParts<Edge> for ReachablePair {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, edge: &Edge) -> Result<Self, Refused> {
        let (caller, here) = admitted(parts, edge).await?;
        let Some(named) = query_value(&parts.uri, "with").filter(|with| !with.is_empty()) else {
            let text = "with required: the id of the sandbox to compare with";
            return Err(Fault::new(FaultKind::Caller, "diff.no_with", text).into());
        };
        let there: SandboxId = named.parse().map_err(|_| Fault::no_sandbox())?;
        if here == there {
            let text = "with must be another sandbox";
            return Err(Fault::new(FaultKind::Caller, "diff.same", text).into());
        }
        edge.control.admit(&caller, there).await?;
        Ok(Self { here, there })
    }
}

/// Compares two sandboxes.
pub async fn diff(
    State(edge): State<Edge>,
    ReachablePair { here, there }: ReachablePair,
    uri: Uri,
) -> Answer<Json<BranchDiff>> {
    let path = query_value(&uri, "path").filter(|path| !path.is_empty());
    let path = path.map(|path| checked_path(Some(path))).transpose()?;
    let _turn = edge.diffs.0.acquire().await.map_err(Fault::bug)?;
    let paths = match path {
        Some(path) => vec![path],
        None => files::folders(&edge, (here, there)).await?,
    };
    let found = files::compare(&edge, (here, there), &paths).await?;
    let (processes, with_processes) = processes::compare(&edge, (here, there)).await?;
    Ok(Json(BranchDiff {
        sandbox_id: here.to_string(),
        with_id: there.to_string(),
        paths,
        files: found.files,
        truncated: found.truncated,
        processes,
        with_processes,
    }))
}
