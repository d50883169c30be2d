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
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{ByteStream, WriteAsk};
use pandastack_wire_public::{
    Written,
    http::{Answer, query_value},
};

use super::path;
use crate::{
    Edge,
    access::Admitted,
    limits::{FILE_BYTES_MAX, UPLOAD_SILENCE_MAX},
};

/// Permission bits that a caller may set.
const MODE_MAX: u32 = 0o7777;

/// Writes a file from the body, whole or not at all.
pub async fn write(
    State(edge): State<Edge>,
    Admitted(id): Admitted,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answer<Json<Written>> {
    let ask = WriteAsk { path: path(&uri)?, mode: mode(&uri)? };
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > FILE_BYTES_MAX) {
        return Err(too_large().into());
    }
    let broken = Broken::default();
    let path = ask.path.clone();
    let written = edge.host.write_file(id, ask, upload(body, broken.clone())).await;
    // Why the body broke says more than that it did.
    match (broken.take(), written) {
        (Some(fault), _) | (None, Err(fault)) => Err(fault.into()),
        (None, Ok(bytes)) => Ok(Json(Written { path, bytes })),
    }
}

/// Deletes a path and everything below it.
pub async fn delete(State(edge): State<Edge>, Admitted(id): Admitted, uri: Uri) -> Answer<StatusCode> {
    edge.host.delete_path(id, &path(&uri)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Remembers why an upload broke.
#[derive(Clone, Default)]
struct Broken(Arc<Mutex<Option<Fault>>>);

impl Broken {
    fn set(&self, fault: &Fault) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(fault.clone());
    }

    fn take(&self) -> Option<Fault> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }
}

/// Turns a request body into pieces, none of them late and all together not too large.
fn upload(body: Body, broken: Broken) -> ByteStream {
    let start = Some((body.into_data_stream(), 0));
    Box::pin(unfold(start, move |state| {
        let broken = broken.clone();
        async move {
            let (mut body, before) = state?;
            match next_piece(&mut body, before).await? {
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

async fn next_piece(body: &mut BodyDataStream, before: u64) -> Option<Result<Bytes, Fault>> {
    let piece = match tokio::time::timeout(UPLOAD_SILENCE_MAX, body.next()).await {
        Ok(None) => return None,
        Ok(Some(Ok(piece))) => piece,
        Ok(Some(Err(error))) => {
            let fault = Fault::new(FaultKind::Caller, "body.broken", "the body ended early");
            return Some(Err(fault.with_detail(error)));
        }
        Err(_) => {
            let text = format!("no byte of the body arrived for {}s", UPLOAD_SILENCE_MAX.as_secs());
            return Some(Err(Fault::new(FaultKind::Caller, "body.slow", text)));
        }
    };
    if before + piece.len() as u64 > FILE_BYTES_MAX {
        return Some(Err(too_large()));
    }
    Some(Ok(piece))
}

fn mode(uri: &Uri) -> Result<Option<u32>, Fault> {
    let Some(text) = query_value(uri, "mode") else { return Ok(None) };
    match u32::from_str_radix(&text, 8) {
        Ok(mode) if mode <= MODE_MAX => Ok(Some(mode)),
        _ => Err(Fault::new(FaultKind::Caller, "fs.bad_mode", "mode must be octal permission bits such as 0644")),
    }
}

fn too_large() -> Fault {
    let text = format!("the file is larger than {FILE_BYTES_MAX} bytes");
    Fault::new(FaultKind::TooLarge, "fs.too_large", text)
}
