//! Builds of templates: start, list, get, read the log.

use axum::{
    Json,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::IntoResponse,
};
use futures_util::stream::unfold;
use pandastack_door::http::{Answer, Refused, flag};
use pandastack_door::{idempotency_key, request_digest};
use pandastack_model::{BuildId, Fault, FaultKind};
use pandastack_wire_fleet::Caller;
use pandastack_wire_public::{BUILD_LOG_END, Build, build_log_event, rfc3339, sse};

use super::caller::Authenticated;
use crate::{
    Control,
    build::{BuildLogReader, BuildUpload, LogRead, receive},
    limits::{LOG_KEEPALIVE, UPLOAD_MAX},
    store,
};

/// Starts a build and answers at once.
pub async fn build(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    headers: HeaderMap,
    uri: Uri,
    body: Body,
) -> Answer {
    control.need_host()?;
    let caller = Caller { attempt: idempotency_key(&headers)?.map(Into::into), ..caller };
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (spool, _place) = control.templates.builds.spool(&caller.workspace)?;
    let received = tokio::time::timeout(UPLOAD_MAX, receive(content_type, body, spool)).await;
    let slow = |_| Fault::new(FaultKind::Caller, "body.slow", format!("the body did not arrive within {UPLOAD_MAX:?}"));
    let mut upload = received.map_err(slow)??;
    if flag(&uri, "replace") {
        upload.fields.replace = Some("true".to_owned());
    }
    let digest = digest(uri.path(), &upload);
    let (accepting, asking) = (control.clone(), caller.clone());
    let work = async move {
        match accepting.build(&asking, upload).await {
            Ok(build) => (StatusCode::ACCEPTED, Json(render(build))).into_response(),
            Err(fault) => Refused::from(fault).into_response(),
        }
    };
    let answering = control.clone();
    // Continues if the caller disconnects: a row without its build would stay queued for ever.
    let answered = control
        .scope
        .run("accept build", async move { answering.idempotency_keys().once(caller, digest, work).await })
        .await;
    Ok(answered.map_err(Fault::bug)??)
}

/// Digest of a build request: its fields, and the names and contents of its files.
fn digest(path: &str, upload: &BuildUpload) -> String {
    let BuildUpload { fields, spool } = upload;
    let mut files: Vec<_> = spool.files.iter().map(|file| (&file.path, &file.digest)).collect();
    files.sort_unstable();
    request_digest(path, format!("{fields:?} {files:?} {:?}", spool.rootfs_digest).as_bytes())
}

/// Lists the caller's builds, newest first. A bare array, because a published client needs one.
pub async fn list(State(control): State<Control>, Authenticated(caller): Authenticated) -> Answer<Json<Vec<Build>>> {
    let builds = control.store.list_builds(&caller.workspace).await.map_err(Fault::from)?;
    Ok(Json(builds.into_iter().map(render).collect()))
}

/// Shows one build.
pub async fn get(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    id: Result<Path<String>, PathRejection>,
) -> Answer<Json<Build>> {
    let id = parsed(id)?;
    let found = control.store.find_build(&caller.workspace, id).await.map_err(Fault::from)?;
    Ok(Json(render(found.ok_or_else(no_build)?)))
}

/// Replays a build's log as an event stream. With `follow`, streams until the build's end.
pub async fn logs(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    id: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Answer {
    let id = parsed(id)?;
    let found = control.store.find_build(&caller.workspace, id).await.map_err(Fault::from)?;
    found.ok_or_else(no_build)?;
    control.need_host()?;
    let reader = control.templates.builds.logs.read(id, flag(&uri, "follow")).await.map_err(Fault::bug)?;
    // A follower must not delay the server's shutdown.
    let token = control.scope.token();
    let events = unfold(Some(reader), move |reader| {
        let token = token.clone();
        async move {
            let (text, reader) = tokio::select! {
                () = token.cancelled() => (": the server is shutting down\n\n".to_owned(), None),
                next = piece(reader?) => next,
            };
            Some((Ok::<_, std::convert::Infallible>(text), reader))
        }
    });
    let mut response = Body::from_stream(events).into_response();
    let mut set = |name, value| response.headers_mut().insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, sse::CONTENT_TYPE);
    set(header::CACHE_CONTROL, "no-cache");
    set(header::HeaderName::from_static("x-accel-buffering"), "no");
    Ok(response)
}

/// Returns the next piece of a stream, and the reader unless the stream has ended.
async fn piece(mut reader: BuildLogReader) -> (String, Option<BuildLogReader>) {
    loop {
        // The wait may be dropped: the reader keeps the bytes that were read.
        match tokio::time::timeout(LOG_KEEPALIVE, reader.next()).await {
            Err(_) => return (sse::KEEPALIVE.to_owned(), Some(reader)),
            Ok(Ok(LogRead::Lines(lines))) if lines.is_empty() => {}
            Ok(Ok(LogRead::Lines(lines))) => {
                return (lines.iter().map(|line| build_log_event(line)).collect(), Some(reader));
            }
            Ok(Ok(LogRead::Quiet)) => {}
            Ok(Ok(LogRead::End)) => return (BUILD_LOG_END.to_owned(), None),
            Ok(Err(error)) => {
                tracing::warn!(%error, "could not read a build's log");
                return (BUILD_LOG_END.to_owned(), None);
            }
        }
    }
}

fn parsed(id: Result<Path<String>, PathRejection>) -> Result<BuildId, Fault> {
    id.ok().and_then(|Path(id)| id.parse().ok()).ok_or_else(no_build)
}

fn no_build() -> Fault {
    Fault::new(FaultKind::Missing, "build.not_found", "build not found")
}

fn render(build: store::BuildRow) -> Build {
    let store::BuildRow { id, workspace: _, name, status, error, size_mb, cpus, memory_mib, bytes, image_ref, .. } =
        build;
    Build {
        id: id.to_string(),
        name: name.to_string(),
        status: status.as_str().to_owned(),
        started_at: rfc3339(build.started_at_ns),
        ended_at: build.ended_at_ns.map(rfc3339),
        size_mb,
        cpu: cpus,
        memory_mb: memory_mib,
        bytes,
        image_ref,
        error,
    }
}
