//! Standard input and signals of a process.

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{StatusCode, Uri},
};
use pandastack_door::http::{Answer, flag, json_body};
use pandastack_wire_fleet::StdinAfterWrite;
use pandastack_wire_public::{Fed, SignalRequest};

use super::ProcessPath;
use crate::{
    Edge,
    files::{UploadFault, upload},
};

/// Writes the body to standard input. With `?end=1` it then closes standard input.
pub async fn feed(
    State(edge): State<Edge>,
    ProcessPath(id, process): ProcessPath,
    uri: Uri,
    body: Body,
) -> Answer<Json<Fed>> {
    let afterwards = if flag(&uri, "end") { StdinAfterWrite::Closes } else { StdinAfterWrite::StaysOpen };
    let broken = UploadFault::default();
    let fed = edge.host.feed(id, process, upload(body, broken.clone()), afterwards).await;
    Ok(Json(Fed { bytes: broken.settle(fed)? }))
}

/// Signals the process group.
pub async fn signal(State(edge): State<Edge>, ProcessPath(id, process): ProcessPath, body: Body) -> Answer<StatusCode> {
    let number = json_body::<SignalRequest>(body).await?.number()?;
    edge.host.signal(id, process, number).await?;
    Ok(StatusCode::NO_CONTENT)
}
