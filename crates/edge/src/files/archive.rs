//! Directories as tar archives, in both directions. Archives are streamed.

use axum::{
    Extension, Json,
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, Uri, header},
    response::IntoResponse,
};
use futures_util::StreamExt;
use pandastack_door::http::{Answer, RequestId, log_fault};
use pandastack_wire_public::tree::Unpacked;

use super::{
    path,
    write::{UploadFault, check_announced, upload},
};
use crate::{Edge, access::ReachableSandbox};

/// Sends a directory while it is read. A read error breaks the connection, so that the client does
/// not mistake the part for the whole.
pub async fn pack(
    State(edge): State<Edge>,
    ReachableSandbox(id): ReachableSandbox,
    Extension(RequestId(request)): Extension<RequestId>,
    uri: Uri,
) -> Answer {
    let archive = edge.host.read_tree(id, &path(&uri)?).await?;
    let archive = archive.map(move |piece| piece.inspect_err(|fault| log_fault(fault, &request)));
    let mut response = Body::from_stream(archive).into_response();
    let mut set = |name, value| response.headers_mut().insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, "application/x-tar");
    set(header::CACHE_CONTROL, "no-store");
    Ok(response)
}

/// Unpacks the body into a directory. Entries before a refused one stay.
pub async fn unpack(
    State(edge): State<Edge>,
    ReachableSandbox(id): ReachableSandbox,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answer<Json<Unpacked>> {
    let path = path(&uri)?;
    check_announced(&headers)?;
    let broken = UploadFault::default();
    let done = edge.host.write_tree(id, &path, upload(body, broken.clone())).await;
    let pandastack_wire_fleet::UnpackSummary { entries, bytes } = broken.settle(done)?;
    Ok(Json(Unpacked { path, entries, bytes }))
}
