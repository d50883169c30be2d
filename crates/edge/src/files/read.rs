//! Reads a file.

use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{HeaderValue, Uri, header},
    response::IntoResponse,
};
use futures_util::StreamExt;
use pandastack_door::http::{Answer, RequestId, log_fault};

use super::path;
use crate::{Edge, access::ReachableSandbox};

/// Sends a file while it is read. There is no content length: files such as those in /proc do not
/// report one, and a file may change meanwhile. A read error breaks the connection, so that the
/// client does not mistake the part for the whole.
pub async fn read(
    State(edge): State<Edge>,
    ReachableSandbox(id): ReachableSandbox,
    Extension(RequestId(request)): Extension<RequestId>,
    uri: Uri,
) -> Answer {
    let file = edge.host.read_file(id, &path(&uri)?).await?;
    let body = file.body.map(move |piece| piece.inspect_err(|fault| log_fault(fault, &request)));
    let mut response = Body::from_stream(body).into_response();
    let mut set = |name, value| response.headers_mut().insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, "application/octet-stream");
    set(header::CACHE_CONTROL, "no-store");
    Ok(response)
}
