//! What may stand between a client and the server.

#![expect(clippy::disallowed_methods, reason = "the tasks end with the runtime of the test")]

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// The most bytes of a body that the buffering proxy holds.
const HELD_MAX: usize = 64 << 20;

/// An address that stays the same while the server behind it changes.
pub struct Relay {
    pub url: String,
    target: Arc<Mutex<String>>,
    cuts: watch::Sender<u32>,
}

impl Relay {
    /// Ends all connections.
    pub fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }

    /// Connects new clients to another server.
    pub fn switch(&self, url: &str) {
        *self.target.lock().unwrap() = address(url);
    }
}

fn address(url: &str) -> String {
    url.trim_start_matches("http://").trim_end_matches('/').to_owned()
}

/// Starts a relay of bytes.
pub async fn switching_relay(url: &str) -> Relay {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = format!("http://{}", listener.local_addr().unwrap());
    let target = Arc::new(Mutex::new(address(url)));
    let (cuts, _) = watch::channel(0);
    let relay = Relay { url: own, target: target.clone(), cuts: cuts.clone() };
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (to, mut cut) = (target.lock().unwrap().clone(), cuts.subscribe());
            tokio::spawn(async move {
                let Ok(mut server) = TcpStream::connect(to).await else { return };
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                    _ = cut.changed() => {}
                }
            });
        }
    });
    relay
}

/// Starts a proxy that sends an answer when it has all of it. It knows no WebSockets.
pub async fn buffering_proxy(url: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = format!("http://{}", listener.local_addr().unwrap());
    let upstream = (reqwest::Client::builder().no_proxy().build().unwrap(), url.to_owned());
    let app = Router::new().fallback(held_back).with_state(upstream);
    tokio::spawn(async move { axum::serve(listener, app).await });
    own
}

async fn held_back(State((http, url)): State<(reqwest::Client, String)>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let Ok(body) = to_bytes(body, HELD_MAX).await else { return StatusCode::PAYLOAD_TOO_LARGE.into_response() };
    let mut headers = head.headers;
    for hop in [header::HOST, header::CONNECTION, header::UPGRADE, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        headers.remove(hop);
    }
    let asked = http.request(head.method, format!("{url}{path}")).headers(headers).body(body).send().await;
    let Ok(answer) = asked else { return StatusCode::BAD_GATEWAY.into_response() };
    let (status, headers) = (answer.status(), answer.headers().clone());
    let Ok(held) = answer.bytes().await else { return StatusCode::BAD_GATEWAY.into_response() };
    let mut response = Response::new(Body::from(held));
    *response.status_mut() = status;
    let passed = |name: &HeaderName| *name != header::TRANSFER_ENCODING && *name != header::CONNECTION;
    for (name, value) in headers.iter().filter(|(name, _)| passed(name)) {
        response.headers_mut().append(name, value.clone());
    }
    response
}
