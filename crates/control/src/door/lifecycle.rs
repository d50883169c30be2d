//! Pause, resume, hibernate, wake, and the idle limit. The bodies of the first four are not read:
//! published clients send empty ones, under any content type.

use std::time::Duration;

use axum::{Json, body::Body, extract::State, http::StatusCode};
use pandastack_door::http::{Answer, SandboxPath, optional_json_body};
use pandastack_wire_public::{Lifecycle, LifecycleChange, SetLifecycle, Status};

use super::caller::Authenticated;
use crate::{Control, store::IdleLimit};

/// Stops the sandbox's CPUs.
pub async fn pause(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
) -> Answer<StatusCode> {
    control.pause(&caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lets the CPUs run again.
pub async fn resume(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
) -> Answer<StatusCode> {
    control.resume(&caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Hibernates the sandbox.
pub async fn hibernate(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
) -> Answer<Json<Status>> {
    let state = control.sleep(&caller, id).await?;
    Ok(Json(Status { status: state.as_str().to_owned() }))
}

/// Wakes the sandbox.
pub async fn wake(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
) -> Answer<Json<Status>> {
    let state = control.wake(&caller, id).await?;
    Ok(Json(Status { status: state.as_str().to_owned() }))
}

/// Shows the idle limit.
pub async fn show(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
) -> Answer<Json<Lifecycle>> {
    Ok(Json(render(control.lifecycle(&caller, id).await?)))
}

/// Changes the idle limit.
pub async fn change(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
    body: Body,
) -> Answer<Json<Lifecycle>> {
    let change = LifecycleChange::try_from(optional_json_body::<SetLifecycle>(body).await?)?;
    control.refuse_database(&caller, id).await?;
    Ok(Json(render(control.set_lifecycle(&caller, id, change).await?)))
}

fn render((limit, idle): (IdleLimit, Duration)) -> Lifecycle {
    let IdleLimit { ttl_seconds, persistent } = limit;
    Lifecycle { ttl_seconds, persistent, idle_seconds: idle.as_secs() }
}
