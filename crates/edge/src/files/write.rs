//! Writes and deletes files.

use std::sync::{Arc, Mutex};

use axum::{
    Json,
    body::{Body, BodyDataStream},
    extract::State,
    http::{HeaderMap, StatusCode, Uri, header},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream::unfold};
use pandastack_door::http::{Answer, query_value};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{ByteStream, WriteParams};
use pandastack_wire_public::{Written, tree::octal_mode};
use tokio::time::{Instant, timeout_at};

use super::path;
use crate::{
    Edge,
    access::ReachableSandbox,
    limits::{FILE_BYTES_MAX, UPLOAD_MAX, UPLOAD_SILENCE_MAX},
};

/// Writes a file from the body, completely or not at all.
pub async fn write(
    State(edge): State<Edge>,
    ReachableSandbox(id): ReachableSandbox,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answer<Json<Written>> {
    let ask = WriteParams { path: path(&uri)?, mode: mode(&uri)? };
    check_announced(&headers)?;
    let broken = UploadFault::default();
    let path = ask.path.clone();
    let written = edge.host.write_file(id, ask, upload(body, broken.clone())).await;
    Ok(Json(Written { path, bytes: broken.settle(written)? }))
}

/// Deletes a path and everything below it.
pub async fn delete(State(edge): State<Edge>, ReachableSandbox(id): ReachableSandbox, uri: Uri) -> Answer<StatusCode> {
    edge.host.delete_path(id, &path(&uri)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Refuses a body whose `Content-Length` is too large.
pub(super) fn check_announced(headers: &HeaderMap) -> Result<(), Fault> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > FILE_BYTES_MAX) { Err(too_large()) } else { Ok(()) }
}

/// Stores why an upload broke.
#[derive(Clone, Default)]
pub struct UploadFault(Arc<Mutex<Option<Fault>>>);

impl UploadFault {
    fn set(&self, fault: &Fault) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(fault.clone());
    }

    /// Returns the result of an upload. The reason why the body broke takes precedence.
    pub fn settle<T>(&self, outcome: Result<T, Fault>) -> Result<T, Fault> {
        let why = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        why.map_or(outcome, Err)
    }
}

/// Turns a request body into a stream of pieces, with limits on time and total size.
pub fn upload(body: Body, broken: UploadFault) -> ByteStream {
    let start = Some((body.into_data_stream(), 0));
    let until = Instant::now() + UPLOAD_MAX;
    Box::pin(unfold(start, move |state| {
        let broken = broken.clone();
        async move {
            let (mut body, before) = state?;
            match next_piece(&mut body, before, until).await? {
                Ok(piece) => {
                    let after = before + piece.len() as u64;
                    Some((Ok(piece), Some((body, after))))
                }
                Err(fault) => {
                    broken.set(&fault);
                    Some((Err(fault), None))
                }
            }
        }
    }))
}

async fn next_piece(body: &mut BodyDataStream, before: u64, until: Instant) -> Option<Result<Bytes, Fault>> {
    let piece = match timeout_at(until.min(Instant::now() + UPLOAD_SILENCE_MAX), body.next()).await {
        Ok(None) => return None,
        Ok(Some(Ok(piece))) => piece,
        Ok(Some(Err(error))) => {
            let fault = Fault::new(FaultKind::Caller, "body.broken", "the body ended early");
            return Some(Err(fault.with_detail(error)));
        }
        Err(_) => {
            let text = match Instant::now() < until {
                true => format!("no part of the body arrived for {}s", UPLOAD_SILENCE_MAX.as_secs()),
                false => format!("the body did not arrive within {}s", UPLOAD_MAX.as_secs()),
            };
            return Some(Err(Fault::new(FaultKind::Caller, "body.slow", text)));
        }
    };
    if before + piece.len() as u64 > FILE_BYTES_MAX {
        return Some(Err(too_large()));
    }
    Some(Ok(piece))
}

fn mode(uri: &Uri) -> Result<Option<u32>, Fault> {
    query_value(uri, "mode").map(|text| octal_mode(&text)).transpose()
}

fn too_large() -> Fault {
    let text = format!("the file is larger than {FILE_BYTES_MAX} bytes");
    Fault::new(FaultKind::TooLarge, "fs.too_large", text)
}
