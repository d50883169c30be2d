//! Creates directories, moves paths and sets permission bits.

use axum::{Json, body::Body, extract::State, http::StatusCode};
use pandastack_door::http::{Answer, json_body};
use pandastack_wire_fleet::{ExistingTarget, PathScope};
use pandastack_wire_public::{
    checked_path,
    tree::{Changed, Chmod, MakeDir, MovePath},
};

use crate::{Edge, access::ReachableSandbox};

/// Creates a directory.
pub async fn mkdir(
    State(edge): State<Edge>,
    ReachableSandbox(id): ReachableSandbox,
    body: Body,
) -> Answer<(StatusCode, Json<Changed>)> {
    let MakeDir { path, parents } = json_body(body).await?;
    let path = checked_path(path)?;
    edge.host.make_dir(id, &path, reach(parents)).await?;
    Ok((StatusCode::CREATED, Json(Changed { path })))
}

/// Moves a path.
pub async fn move_path(
    State(edge): State<Edge>,
    ReachableSandbox(id): ReachableSandbox,
    body: Body,
) -> Answer<Json<Changed>> {
    let MovePath { from, to, overwrite } = json_body(body).await?;
    let (from, path) = (checked_path(from)?, checked_path(to)?);
    let in_the_way = if overwrite { ExistingTarget::Goes } else { ExistingTarget::Stays };
    edge.host.move_path(id, &from, &path, in_the_way).await?;
    Ok(Json(Changed { path }))
}

/// Sets permission bits.
pub async fn chmod(
    State(edge): State<Edge>,
    ReachableSandbox(id): ReachableSandbox,
    body: Body,
) -> Answer<Json<Changed>> {
    let ask: Chmod = json_body(body).await?;
    let bits = ask.bits()?;
    let path = checked_path(ask.path)?;
    edge.host.chmod(id, &path, bits, reach(ask.recursive)).await?;
    Ok(Json(Changed { path }))
}

fn reach(all: bool) -> PathScope {
    if all { PathScope::All } else { PathScope::Only }
}
