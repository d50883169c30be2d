//! Snapshots: make, list, get, delete.

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    http::{StatusCode, Uri},
};
use pandastack_door::http::{Answer, SandboxPath, query_value};
use pandastack_model::{Fault, LayerId};
use pandastack_wire_public::{Snapshot, SnapshotList, VolumeAttachment, rfc3339};

use super::caller::Authenticated;
use crate::{Control, app::no_snapshot, store};

/// Makes a snapshot of a sandbox as it is now.
pub async fn create(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
) -> Answer<(StatusCode, Json<Snapshot>)> {
    control.refuse_database(&caller, id).await?;
    let snapshot = control.snapshot(&caller, id).await?;
    Ok((StatusCode::CREATED, Json(render(snapshot))))
}

/// Lists the caller's snapshots, newest first. `sandbox_id` selects those of one sandbox.
pub async fn list(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> Answer<Json<SnapshotList>> {
    let sandbox = query_value(&uri, "sandbox_id").filter(|id| !id.is_empty());
    let found = control.store.list_snapshots(&caller.workspace, sandbox.as_deref()).await.map_err(Fault::from)?;
    Ok(Json(SnapshotList { snapshots: found.into_iter().map(render).collect() }))
}

/// Shows one snapshot.
pub async fn get(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    id: Result<Path<String>, PathRejection>,
) -> Answer<Json<Snapshot>> {
    let Path(id) = id.map_err(|_| no_snapshot())?;
    let found = control.store.find_snapshot(&caller.workspace, &id).await.map_err(Fault::from)?;
    Ok(Json(render(found.ok_or_else(no_snapshot)?)))
}

/// Deletes a snapshot.
pub async fn delete(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    id: Result<Path<String>, PathRejection>,
) -> Answer<StatusCode> {
    let Path(id) = id.map_err(|_| no_snapshot())?;
    let layer: LayerId = format!("lyr_{id}").parse().map_err(|_| no_snapshot())?;
    control.delete_snapshot(&caller, layer).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn render(snapshot: store::SnapshotRow) -> Snapshot {
    let id = snapshot.id();
    let store::SnapshotRow { layer: _, workspace, sandbox, template, size: _, own, created_at_ns, volumes } = snapshot;
    Snapshot {
        id,
        sandbox_id: sandbox.to_string(),
        template: template.to_string(),
        size_bytes: own.get(),
        created_at: rfc3339(created_at_ns),
        workspace: workspace.0,
        volumes: volumes.into_iter().map(attachment).collect(),
    }
}

fn attachment(sealed: store::SealedMount) -> VolumeAttachment {
    let store::SealedMount { name, path, read_only, size: _ } = sealed;
    VolumeAttachment { name, read_only: Some(read_only), mount_path: Some(path) }
}
