//! Ends requests whose key is revoked while they run: refuses them before the answer, or cuts the
//! answer off.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    response::Response,
};
use hyper::body::{Frame, SizeHint};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::CallerKey;

use crate::{http::refuse, limits::WHOLE_ANSWER_BYTES_MAX};

/// Marks an answer that has no end of its own, such as a stream of news. It may end at any event,
/// so the end of its key is an ordinary end.
#[derive(Clone, Copy)]
pub struct EndlessStream;

/// Works until the answer, or until the key is revoked. The work is then dropped, as when a client
/// disconnects.
pub async fn until_revoked(key: CallerKey, work: impl Future<Output = Response>, request: &str) -> Response {
    let response = tokio::select! {
        // The work comes first: a key that revokes itself still gets its answer.
        biased;
        response = work => response,
        () = key.revoked() => return refuse(revoked_key(), request),
    };
    // A short answer that is complete is sent, even if it tells of the key's own revocation.
    if response.body().size_hint().exact().is_some_and(|bytes| bytes <= WHOLE_ANSWER_BYTES_MAX) {
        return response;
    }
    let is_endless = response.extensions().get::<EndlessStream>().is_some();
    response.map(|body| {
        let revoked = Box::pin(async move { key.revoked().await });
        Body::new(UntilRevoked { body, revoked, is_endless })
    })
}

/// The fault for a request with a revoked key.
pub fn revoked_key() -> Fault {
    Fault::new(
        FaultKind::Unauthorized,
        "unauthorized",
        "this credential was revoked, or what it may do has changed; try again, or log in",
    )
}

/// An answer that is cut off when its key is revoked.
struct UntilRevoked {
    body: Body,
    revoked: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_endless: bool,
}

impl HttpBody for UntilRevoked {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        if self.revoked.as_mut().poll(cx).is_ready() {
            if self.is_endless {
                return Poll::Ready(None);
            }
            // An error, so that the client does not take a partial answer for a complete one.
            let error = io::Error::new(io::ErrorKind::ConnectionAborted, "the API key was revoked");
            return Poll::Ready(Some(Err(error.into())));
        }
        Pin::new(&mut self.body).poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
