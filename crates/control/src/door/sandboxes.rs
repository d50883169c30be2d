//! Sandboxes: create, list, get, delete.

use axum::{Json, body::Body, extract::State, http::StatusCode};
use pandastack_model::{Fault, SandboxSpec, SandboxState};
use pandastack_wire_public::{
    CreateSandbox, Sandbox,
    http::{Answer, SandboxPath, json_body},
    rfc3339, visible_metadata,
};

use super::caller::Authenticated;
use crate::{Control, store::Intent};

/// Creates a sandbox and answers when it is usable.
pub async fn create(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    body: Body,
) -> Answer<(StatusCode, Json<Sandbox>)> {
    let spec = SandboxSpec::try_from(json_body::<CreateSandbox>(body).await?)?;
    let intent = control.create(caller, spec).await?;
    Ok((StatusCode::CREATED, Json(render(intent))))
}

/// Lists the caller's sandboxes, newest first.
pub async fn list(State(control): State<Control>, Authenticated(caller): Authenticated) -> Answer<Json<Vec<Sandbox>>> {
    let intents = control.store.list(&caller.workspace).await.map_err(Fault::from)?;
    Ok(Json(intents.into_iter().map(render).collect()))
}

/// Shows one sandbox.
pub async fn get(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
) -> Answer<Json<Sandbox>> {
    let intent = control.store.find(&caller.workspace, id).await.map_err(Fault::from)?;
    Ok(Json(render(intent.ok_or_else(Fault::no_sandbox)?)))
}

/// Deletes a sandbox.
pub async fn delete(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
) -> Answer<StatusCode> {
    control.delete(caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn render(intent: Intent) -> Sandbox {
    let Intent { id, workspace, generation: _, created_at_ns, spec, size, state, observed } = intent;
    let mut metadata = visible_metadata(&spec.metadata);
    metadata.insert("workspace".to_owned(), workspace.0);
    let status = state.as_str().to_owned();
    let status_reason = match state {
        SandboxState::Failed { reason } => Some(reason),
        _ => None,
    };
    Sandbox {
        id: id.to_string(),
        template: spec.template.as_str().to_owned(),
        cpu: size.cpus,
        memory_mb: size.memory_mib,
        status,
        status_reason,
        guest_ip: observed.guest_ip,
        metadata,
        created_at: rfc3339(created_at_ns),
        boot_ms: observed.boot_ms,
        boot_mode: public_boot_mode(observed.boot_mode),
        persistent: spec.persistent,
        ttl_seconds: spec.ttl_seconds,
        isolation: observed.isolation,
    }
}

/// Every machine is restored from its template, whether it stood by or was made on demand: the API's `snapshot-natid`.
fn public_boot_mode(mode: String) -> String {
    if matches!(mode.as_str(), "standby" | "cold") { "snapshot-natid".to_owned() } else { mode }
}
