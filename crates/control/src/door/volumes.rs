//! Volumes: make, list, get, grow, delete.

use axum::{
    Json,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::StatusCode,
};
use pandastack_door::http::{Answer, json_body};
use pandastack_model::Fault;
use pandastack_wire_public::{CreateVolume, GrowVolume, Volume, rfc3339};

use super::caller::Authenticated;
use crate::{
    Control,
    app::{VolumeStatus, no_volume},
};

/// Makes an empty volume.
pub async fn create(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    body: Body,
) -> Answer<(StatusCode, Json<Volume>)> {
    let (name, size) = json_body::<CreateVolume>(body).await?.checked()?;
    let made = control.make_volume(&caller, name, size).await?;
    Ok((StatusCode::CREATED, Json(render(made))))
}

/// Lists the caller's volumes by name.
pub async fn list(State(control): State<Control>, Authenticated(caller): Authenticated) -> Answer<Json<Vec<Volume>>> {
    Ok(Json(control.list_volumes(&caller).await?.into_iter().map(render).collect()))
}

/// Shows one volume.
pub async fn get(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    name: Result<Path<String>, PathRejection>,
) -> Answer<Json<Volume>> {
    Ok(Json(render(control.volume(&caller, &named(name)?).await?)))
}

/// Makes a volume larger.
pub async fn grow(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Answer<Json<Volume>> {
    let size = json_body::<GrowVolume>(body).await?.checked()?;
    Ok(Json(render(control.grow_volume(&caller, &named(name)?, size).await?)))
}

/// Deletes a volume that no sandbox uses.
pub async fn delete(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    name: Result<Path<String>, PathRejection>,
) -> Answer<StatusCode> {
    control.delete_volume(&caller, &named(name)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn named(path: Result<Path<String>, PathRejection>) -> Result<String, Fault> {
    path.map(|Path(name)| name).map_err(|_| no_volume("with this name"))
}

fn render(seen: VolumeStatus) -> Volume {
    let VolumeStatus { volume, seen } = seen;
    // The host's size is more accurate than the row's.
    let size = seen.as_ref().map_or(volume.size, |seen| seen.size);
    Volume {
        name: volume.name,
        size_mb: size.as_mib(),
        size_bytes: size.get(),
        created_at: rfc3339(volume.created_at_ns),
        sandbox_id: volume.sandbox.map(|sandbox| sandbox.to_string()),
        attached_to: seen.map(|seen| seen.users.iter().map(ToString::to_string).collect()).unwrap_or_default(),
    }
}
