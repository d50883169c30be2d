//! The HTTP side of the stand-in: one connection after another, one request after another.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use pandastack_kit::{Clock, Scope};
use tokio::net::TcpListener;

use super::books::{AnswerDelivery, BookAnswer, Books, ReceivedRequest};

/// Longest body of a request.
const BODY_BYTES_MAX: usize = 256 * 1024;

/// Serves until the scope closes.
pub(super) async fn run(listener: TcpListener, books: Arc<Mutex<Books>>, clock: Arc<dyn Clock>, scope: Scope) {
    let token = scope.token();
    while let Some(Ok((stream, _))) = token.run_until_cancelled(listener.accept()).await {
        let (books, clock, token) = (books.clone(), clock.clone(), scope.token());
        scope.start("connection to the stand-in", async move {
            let service = service_fn(move |request| handle(request, books.clone(), clock.clone()));
            let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // A lost answer ends the connection with an error, as intended.
            let _ = token.run_until_cancelled(serving).await;
        });
    }
}

/// Answers one request. An error closes the connection without an answer.
async fn handle(
    request: Request<Incoming>,
    books: Arc<Mutex<Books>>,
    clock: Arc<dyn Clock>,
) -> Result<Response<Full<Bytes>>, io::Error> {
    let is_post = request.method() == Method::POST;
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let mut received = ReceivedRequest {
        path: request.uri().path().to_owned(),
        idempotency_key: header("idempotency-key"),
        version: header("stripe-version"),
        authorization: header("authorization"),
        fields: Vec::new(),
    };
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await.map_err(io::Error::other)?.to_bytes();
    received.fields = form_urlencoded::parse(&body).into_owned().collect();
    if !is_post {
        received.path = format!("(not a POST) {}", received.path);
    }
    let now_s = clock.now_ns() / 1_000_000_000;
    let answer = books.lock().unwrap_or_else(PoisonError::into_inner).answer(received, now_s);
    // Released even if the client hangs up during a slow answer.
    let _held = HeldKeys { books, keys: answer.held.clone() };
    match answer.delivery {
        AnswerDelivery::AtOnce => {}
        AnswerDelivery::After(pause) => tokio::time::sleep(pause).await,
        AnswerDelivery::Never => return Err(io::Error::other("the answer is lost on purpose")),
    }
    Ok(render(&answer))
}

fn render(answer: &BookAnswer) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(answer.status).header("Content-Type", "application/json");
    for (name, value) in &answer.headers {
        response = response.header(*name, value);
    }
    response.body(Full::new(Bytes::from(answer.body.to_string()))).unwrap()
}

struct HeldKeys {
    books: Arc<Mutex<Books>>,
    keys: Vec<String>,
}

impl Drop for HeldKeys {
    fn drop(&mut self) {
        self.books.lock().unwrap_or_else(PoisonError::into_inner).release(&self.keys);
    }
}
