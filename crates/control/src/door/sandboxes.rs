//! Sandboxes: create, list, get, delete.

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{StatusCode, Uri},
};
use pandastack_door::http::{Answer, SandboxPath, json_body, query_value};
use pandastack_model::{Fault, FaultKind, SandboxId, SandboxState, Tier, VolumeAccess, VolumeMount};
use pandastack_wire_public::{
    CreateSandbox, CreateSandboxSpec, KindFilter, MachineKind, Sandbox, VolumeAttachment, egress_list, rfc3339,
    visible_metadata,
};

use super::caller::Authenticated;
use crate::{
    Control,
    app::public_boot_mode,
    limits::SANDBOXES_LISTED_MAX,
    store::{Intent, ListPage, ShownSandbox},
};

/// Creates a sandbox and answers when it is usable.
pub async fn create(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    body: Body,
) -> Answer<(StatusCode, Json<Sandbox>)> {
    let wanted = CreateSandboxSpec::try_from(json_body::<CreateSandbox>(body).await?)?;
    let intent = control.create(caller, wanted).await?;
    Ok((StatusCode::CREATED, Json(render(intent))))
}

/// Lists the caller's sandboxes of some kinds, newest first: all, or a page of them.
pub async fn list(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> Answer<Json<Vec<Sandbox>>> {
    let text = |name| query_value(&uri, name).filter(|text| !text.is_empty());
    let bad =
        |name: &str, rule: &str| Fault::new(FaultKind::Caller, "sandbox.bad_page", format!("{name} must be {rule}"));
    let limit: Option<u64> =
        text("limit").map(|limit| limit.parse()).transpose().map_err(|_| bad("limit", "a number"))?;
    let after: Option<SandboxId> = text("after").map(|id| id.parse()).transpose().map_err(|_| bad("after", "an id"))?;
    let kinds = KindFilter::read(query_value(&uri, "kind").as_deref())?;
    let found = match (limit, after) {
        (None, None) => control.store.list_shown(&caller.workspace, kinds).await,
        (limit, after) => {
            let limit = limit.unwrap_or(SANDBOXES_LISTED_MAX).clamp(1, SANDBOXES_LISTED_MAX);
            let page = control.store.list_page(&caller.workspace, kinds, ListPage { after, limit }).await;
            // Without this check, the page after a deleted sandbox would look like the end.
            if let Some(after) = after.filter(|_| page.as_ref().is_ok_and(Vec::is_empty)) {
                let known = control.store.state(&caller.workspace, after).await.map_err(Fault::from)?;
                known.ok_or_else(Fault::no_sandbox)?;
            }
            page
        }
    };
    let sandboxes = found.map_err(Fault::from)?;
    Ok(Json(sandboxes.into_iter().map(render_shown).collect()))
}

/// Shows one sandbox.
pub async fn get(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
) -> Answer<Json<Sandbox>> {
    let found = control.store.find_shown(&caller.workspace, id).await.map_err(Fault::from)?;
    Ok(Json(render_shown(found.ok_or_else(Fault::no_sandbox)?)))
}

/// Deletes a sandbox.
pub async fn delete(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
) -> Answer<StatusCode> {
    control.refuse_database(&caller, id).await?;
    control.delete(caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn render_shown(ShownSandbox { intent, kind }: ShownSandbox) -> Sandbox {
    let database_id = (kind == MachineKind::Database).then(|| intent.id.to_string());
    Sandbox { database_id, ..render(intent) }
}

/// Renders a sandbox of no database, the same for every route.
pub(super) fn render(intent: Intent) -> Sandbox {
    let Intent { id, workspace, generation: _, created_at_ns, spec, volume_names, from_snapshot, .. } = intent;
    // Made from the caller's own template: its origin is a layer, but not a snapshot.
    let from_template = from_snapshot.is_none() && intent.lineage.parent.is_none();
    let mut metadata = visible_metadata(&spec.metadata);
    metadata.insert("workspace".to_owned(), workspace.0);
    let status = intent.state.as_str().to_owned();
    let status_reason = match intent.state {
        SandboxState::Failed { reason } => Some(reason),
        _ => None,
    };
    let observed = intent.observed;
    Sandbox {
        id: id.to_string(),
        template: spec.template.as_str().to_owned(),
        cpu: intent.size.cpus,
        memory_mb: intent.size.memory_mib,
        status,
        status_reason,
        guest_ip: observed.guest_ip,
        metadata,
        created_at: rfc3339(created_at_ns),
        from_snapshot,
        boot_ms: observed.boot_ms,
        boot_mode: match observed.boot_mode.as_str() {
            "snapshot" if from_template => public_boot_mode("cold").to_owned(),
            mode => public_boot_mode(mode).to_owned(),
        },
        persistent: spec.persistent,
        ttl_seconds: spec.ttl_seconds,
        isolation_warning: observed.isolation.parse().ok().and_then(Tier::warning).map(str::to_owned),
        isolation: observed.isolation,
        egress_allowlist: egress_list(&spec.egress),
        egress_mbps: spec.bandwidth_mbps,
        volumes: spec.volumes.into_iter().zip(volume_names).map(attachment).collect(),
        database_id: None,
    }
}

fn attachment((mount, name): (VolumeMount, String)) -> VolumeAttachment {
    let VolumeMount { volume: _, path, access } = mount;
    VolumeAttachment { name, read_only: Some(access == VolumeAccess::ReadOnly), mount_path: Some(path) }
}
