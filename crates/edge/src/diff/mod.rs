//! Compares two sandboxes: their files and their processes. Reads both guests within limits, and
//! changes nothing.

mod files;
mod processes;

use axum::{
    Json,
    extract::{FromRequestParts, State},
    http::{Uri, request::Parts},
};
use pandastack_door::{
    PlaceKind,
    http::{Answer, Refused, query_value},
};
use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::WorkspaceId;
use pandastack_wire_public::{BranchDiff, checked_path};

use crate::{Edge, access::admitted, limits::DIFF_TIME_MAX};

/// Places of comparisons. Each holds the listings of two guests.
pub const DIFFS: PlaceKind = PlaceKind { name: "comparisons", quota: "quota.diffs", full: "diff.too_many" };

/// Two sandboxes that the caller may reach.
pub struct ReachablePair {
    here: SandboxId,
    there: SandboxId,
    workspace: WorkspaceId,
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
        Ok(Self { here, there, workspace: caller.workspace })
    }
}

/// Compares two sandboxes.
pub async fn diff(State(edge): State<Edge>, pair: ReachablePair, uri: Uri) -> Answer<Json<BranchDiff>> {
    let path = query_value(&uri, "path").filter(|path| !path.is_empty());
    let path = path.map(|path| checked_path(Some(path))).transpose()?;
    let _place = edge.diffs.take(Some(&pair.workspace))?;
    // Guests answer piece by piece, so that a slow one could take any time.
    let compared = tokio::time::timeout(DIFF_TIME_MAX, compare(&edge, (pair.here, pair.there), path)).await;
    Ok(Json(compared.map_err(|_| too_slow())??))
}

async fn compare(edge: &Edge, pair: (SandboxId, SandboxId), path: Option<String>) -> Result<BranchDiff, Fault> {
    let is_named = path.is_some();
    let (paths, cut) = match path {
        Some(path) => (vec![path], false),
        None => files::folders(edge, pair).await?,
    };
    let found = files::compare(edge, pair, &paths).await?;
    if is_named && !found.exists {
        return Err(Fault::new(FaultKind::Missing, "diff.no_path", "neither sandbox has this folder"));
    }
    let processes = processes::compare(edge, pair).await?;
    Ok(BranchDiff {
        sandbox_id: pair.0.to_string(),
        with_id: pair.1.to_string(),
        paths,
        files: found.files,
        truncated: cut || found.truncated || processes.truncated,
        processes: processes.here,
        with_processes: processes.there,
    })
}

fn too_slow() -> Fault {
    let text = "the sandboxes did not answer in time; compare a smaller folder with path";
    Fault::new(FaultKind::Timeout, "diff.too_slow", text)
}
