//! The HTTP side for the machines: one connection of one machine. Who calls is known from where the
//! connection came from; there are no tokens. Answers 5xx whenever the guest must try again.

use std::{
    io,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::TryStreamExt;
use http_body_util::{BodyExt, StreamBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Frame, Incoming},
    header::{CONTENT_LENGTH, HeaderMap},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

use crate::{
    Archive, ArchiveRead, BaseError, ReadError, Who,
    archive::chain,
    connection::{ArchivePath, RelayAnswer, pieces, refuse, say, serve_requests},
    limits::{HISTORY_BYTES_MAX, WAITING_FILES_MAX, WAL_BYTES_MAX, WAL_RECEIVE_MAX},
    name::WalName,
    shelf::{Shelf, SpoolRoom, WalDigest},
    spool::Draft,
    wal::{ReceivedWal, Taken},
};

const WRITTEN: &str = "x-written";

impl Archive {
    /// Serves one connection of a machine until it ends or nothing moves on it any more.
    pub async fn serve<S>(&self, database: &str, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let Ok(shelf) = self.shelf(database) else { return };
        let Ok(_permit) = shelf.connections.clone().try_acquire_owned() else { return };
        let token = self.inner.scope.token();
        let answer = |request| self.answer(&shelf, request);
        tokio::select! {
            ended = serve_requests(stream, answer) => if let Err(error) = ended {
                tracing::debug!(database, %error, "archive connection");
            },
            () = token.cancelled() => {}
        }
    }

    async fn answer(&self, shelf: &Arc<Shelf>, request: Request<Incoming>) -> RelayAnswer {
        let (head, body) = request.into_parts();
        let Some(place) = ArchivePath::parse(head.uri.path()) else {
            return refuse(StatusCode::NOT_FOUND, "no such path", &head.headers, body).await;
        };
        let who = match self.who(&shelf.id).await {
            Ok(who) => who,
            Err(error) => {
                return refuse(StatusCode::SERVICE_UNAVAILABLE, &error.to_string(), &head.headers, body).await;
            }
        };
        match (&head.method, place, who) {
            (&Method::PUT | &Method::POST, ArchivePath::Wal(name), Who::Database) => {
                self.put_wal(shelf, name, &head.headers, body).await
            }
            // Its log is kept until it has an archive: it begins with the end of the restore.
            (&Method::PUT | &Method::POST, ArchivePath::Wal(_), Who::Restoring { .. }) => {
                refuse(StatusCode::SERVICE_UNAVAILABLE, "the database is being restored", &head.headers, body).await
            }
            (&Method::PUT | &Method::POST, ArchivePath::Wal(_), Who::Other) => {
                refuse(StatusCode::NO_CONTENT, "", &head.headers, body).await
            }
            (&Method::PUT | &Method::POST, ArchivePath::Base(name), Who::Database) => {
                self.answer_base(shelf, name, body).await
            }
            (&Method::PUT | &Method::POST, ArchivePath::Base(_), Who::Restoring { .. }) => {
                refuse(StatusCode::CONFLICT, "the database is being restored", &head.headers, body).await
            }
            (&Method::GET, place, Who::Database) => self.get(&shelf.id, place).await,
            (&Method::GET, place, Who::Restoring { source }) => self.get_of_source(&source, place).await,
            (_, _, Who::Other) => {
                refuse(StatusCode::NOT_FOUND, "this machine has no archive", &head.headers, body).await
            }
            _ => refuse(StatusCode::METHOD_NOT_ALLOWED, "PUT, POST or GET", &head.headers, body).await,
        }
    }

    async fn get(&self, id: &str, place: ArchivePath<'_>) -> RelayAnswer {
        let opened = match place {
            ArchivePath::Wal(name) => self.open_wal(id, name).await,
            ArchivePath::Base(name) => self.open_base(id, name).await,
        };
        match opened {
            Ok(ArchiveRead { bytes, stream }) => {
                let mut answer = Response::new(StreamBody::new(stream.map_ok(Frame::data)).boxed_unsync());
                answer.headers_mut().insert(CONTENT_LENGTH, bytes.into());
                answer
            }
            // PostgreSQL also asks for names that cannot be archived.
            Err(error @ (ReadError::Absent { .. } | ReadError::Name(_))) => say(StatusCode::NOT_FOUND, &chain(&error)),
            Err(error @ ReadError::Unavailable { .. }) => say(StatusCode::BAD_GATEWAY, &chain(&error)),
        }
    }

    /// Answers a restore. For PostgreSQL the first segment that is not there is the end of the log,
    /// so 404 is said of that one only.
    async fn get_of_source(&self, source: &str, place: ArchivePath<'_>) -> RelayAnswer {
        let segment = match place {
            ArchivePath::Wal(name) => name.parse().ok().filter(|name| matches!(name, WalName::Segment(_))),
            ArchivePath::Base(_) => None,
        };
        let answer = self.get(source, place).await;
        let (Some(wanted), StatusCode::NOT_FOUND, Ok(shelf)) = (segment, answer.status(), self.shelf(source)) else {
            return answer;
        };
        let facts = shelf.facts();
        if facts.is_removed() || facts.bases.is_empty() {
            return say(
                StatusCode::SERVICE_UNAVAILABLE,
                "the source has no base backup; restore from another database",
            );
        }
        if facts.is_hole(wanted) {
            let text = format!("{wanted} is missing but later segments are there; restore from a newer base backup");
            return say(StatusCode::SERVICE_UNAVAILABLE, &text);
        }
        answer
    }

    async fn put_wal(&self, shelf: &Arc<Shelf>, name: &str, headers: &HeaderMap, body: Incoming) -> RelayAnswer {
        let name = match name.parse::<WalName>() {
            Ok(name) => name,
            Err(error) => return refuse(StatusCode::BAD_REQUEST, &error.to_string(), headers, body).await,
        };
        let bytes_max = if matches!(name, WalName::History(_)) { HISTORY_BYTES_MAX } else { WAL_BYTES_MAX };
        let length = body.size_hint().exact().unwrap_or(bytes_max);
        if length > bytes_max {
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the file is too large", headers, body).await;
        }
        // Other tenants' volumes may be on this disk.
        let has_room = self.inner.spool.has_room().unwrap_or(false) && shelf.facts().waiting.len() < WAITING_FILES_MAX;
        let Some(share) = has_room.then(|| self.inner.spool.reserve(&shelf.id, length)).flatten() else {
            shelf.facts().spool_full = SpoolRoom::Full;
            self.assess(shelf);
            let text = "too much of the log waits for the store; keep the file and send it again later";
            return refuse(StatusCode::INSUFFICIENT_STORAGE, text, headers, body).await;
        };
        let now = SystemTime::now();
        let given = headers.get(WRITTEN).and_then(|value| value.to_str().ok()?.parse().ok());
        let given = given.and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
        let written = given.map_or(now, |given| given.min(now));
        let (draft, bytes, digest) = match timeout(WAL_RECEIVE_MAX, self.receive_wal(shelf, bytes_max, body)).await {
            Ok(Ok(received)) => received,
            Ok(Err(error)) => return say(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
            Err(_) => return say(StatusCode::REQUEST_TIMEOUT, "the file came too slowly; send it again"),
        };
        let received = ReceivedWal { name, draft, share, bytes, digest, written };
        let (archive, shelf) = (self.clone(), shelf.clone());
        let taking = self.inner.scope.run("archive file", async move { archive.take_wal(&shelf, received).await });
        match taking.await {
            Ok(Ok(Taken::Kept | Taken::Known)) => say(StatusCode::CREATED, ""),
            Ok(Ok(Taken::Conflict)) => say(StatusCode::CONFLICT, "this file is archived with other content"),
            Ok(Ok(Taken::Refused(reason))) => say(StatusCode::BAD_REQUEST, reason),
            Ok(Ok(Taken::Removed)) => say(StatusCode::GONE, "the archive was removed"),
            Ok(Err(error)) => say(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
            Err(error) => say(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }

    /// Writes a body to the disk, beside the place that it will have.
    async fn receive_wal(&self, shelf: &Shelf, bytes_max: u64, body: Incoming) -> io::Result<(Draft, u64, WalDigest)> {
        let (spool, id) = (self.inner.spool.clone(), shelf.id.clone());
        let (draft, file) = self.block(move || spool.draft(&id)).await?;
        let mut file = tokio::fs::File::from_std(file);
        let (mut hash, mut bytes) = (blake3::Hasher::new(), 0);
        let mut pieces = std::pin::pin!(pieces(body));
        while let Some(piece) = pieces.try_next().await? {
            bytes += piece.len() as u64;
            if bytes > bytes_max {
                return Err(io::Error::other("the file is too large"));
            }
            hash.update(&piece);
            file.write_all(&piece).await?;
        }
        file.flush().await?;
        Ok((draft, bytes, WalDigest::of(&hash.finalize())))
    }

    async fn answer_base(&self, shelf: &Shelf, name: &str, body: Incoming) -> RelayAnswer {
        match self.put_base(&shelf.id, name, pieces(body)).await {
            Ok(_) => say(StatusCode::CREATED, ""),
            Err(error) => {
                let status = match error {
                    BaseError::Name(_) => StatusCode::BAD_REQUEST,
                    BaseError::Damaged(_) => StatusCode::UNPROCESSABLE_ENTITY,
                    BaseError::NoRoom => StatusCode::INSUFFICIENT_STORAGE,
                    BaseError::Busy => StatusCode::SERVICE_UNAVAILABLE,
                    BaseError::Conflict { .. } => StatusCode::CONFLICT,
                    BaseError::Absent => StatusCode::NOT_FOUND,
                    BaseError::Removed => StatusCode::GONE,
                    BaseError::Spool(_) => StatusCode::INTERNAL_SERVER_ERROR,
                    BaseError::Unavailable { .. } => StatusCode::BAD_GATEWAY,
                };
                say(status, &chain(&error))
            }
        }
    }
}
