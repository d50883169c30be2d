//! Slow clients: a limit ends each of them, and no other client waits for them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::{io::ErrorKind, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::StatusCode,
    routing::{any, get},
};
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use pandastack_door::{ServeSettings, serve_with};
use pandastack_kit::Scope;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

/// Timeout for anything that should happen by itself.
const SOON: Duration = Duration::from_secs(60);

const HEAD: &str = "GET /healthz HTTP/1.1\r\nhost: x\r\nauthorization: Bearer key\r\n\r\n";

/// A server with two routes: `/healthz` answers at once, `/work` when the test allows it.
struct Door {
    address: String,
    scope: Scope,
    work_may_end: Arc<Notify>,
}

impl Door {
    async fn start(settings: ServeSettings) -> Self {
        let (scope, work_may_end) = (Scope::new(), Arc::new(Notify::new()));
        let ended = work_may_end.clone();
        let work = move || async move {
            let begin = stream::iter([Ok::<_, std::io::Error>("begin\n")]);
            let end = stream::once(async move {
                ended.notified().await;
                Ok("end\n")
            });
            Body::from_stream(begin.chain(end))
        };
        let app = Router::new().route("/healthz", any(|| async { "ok" })).route("/work", get(work));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        scope.start("serve", serve_with(listener, app, scope.clone(), settings));
        Self { address, scope, work_may_end }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).await.unwrap()
    }

    async fn connect_many(&self, count: usize) -> Vec<TcpStream> {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(self.connect().await);
        }
        all
    }

    /// Checks that a new client is served.
    async fn is_well(&self) {
        let mut client = self.connect().await;
        say(&mut client, HEAD).await;
        let answer = read_until(&mut client, |text| text.ends_with("ok")).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }

    /// Ends the server. None of its tasks may go on.
    async fn close(self) {
        assert_eq!(self.scope.close(SOON).await, 0);
    }
}

fn short() -> ServeSettings {
    let short = Duration::from_millis(400);
    ServeSettings { head_arrival_max: short, unused_max: short, ..ServeSettings::default() }
}

async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, work).await.unwrap_or_else(|_| panic!("never came: {what}"))
}

async fn wait_for(what: &str, condition: impl Fn() -> bool) {
    within(what, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn say(client: &mut TcpStream, text: &str) {
    // The server may have closed the connection. Its answer will show that.
    let _ = client.write_all(text.as_bytes()).await;
}

/// Reads until there is enough text, or to the end of the connection.
async fn read_until(client: &mut TcpStream, enough: impl Fn(&str) -> bool) -> String {
    let (mut text, mut piece) = (String::new(), [0; 4096]);
    let reading = async {
        while let Ok(count @ 1..) = client.read(&mut piece).await {
            text.push_str(std::str::from_utf8(&piece[..count]).unwrap());
            if enough(&text) {
                break;
            }
        }
    };
    within("an answer", reading).await;
    text
}

/// Reports whether the server has closed the connection. Drops what it said before.
fn is_closed(client: &TcpStream) -> bool {
    match client.try_read(&mut [0; 1024]) {
        Err(error) => error.kind() != ErrorKind::WouldBlock,
        Ok(count) => count == 0,
    }
}

#[tokio::test]
async fn a_head_that_dribbles_is_ended_and_others_are_served_meanwhile() {
    let door = Door::start(short()).await;
    let mut slow = door.connect_many(50).await;
    for (client, at) in slow.iter_mut().zip((0..HEAD.len() - 1).cycle()) {
        say(client, &HEAD[..at]).await;
    }
    door.is_well().await;
    for client in &mut slow {
        // Some get an error for being too slow. Those that had sent nothing do not.
        let said = read_until(client, |_| false).await;
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
    }
    // Only the server's own task remains.
    wait_for("the end of their tasks", || door.scope.tasks() == 1).await;
    door.close().await;
}

#[tokio::test]
async fn a_byte_now_and_then_does_not_keep_a_head_alive() {
    let door = Door::start(short()).await;
    let mut client = door.connect().await;
    say(&mut client, "GET /healthz HTTP/1.1\r\n").await;
    within("the end of a head that dribbles", async {
        while !is_closed(&client) {
            say(&mut client, "x: y\r\n").await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    door.close().await;
}

#[tokio::test]
async fn connections_without_a_request_give_way_to_new_ones() {
    let door = Door::start(ServeSettings { connections_max: 8, ..ServeSettings::default() }).await;
    // This one has a request in progress, and stays.
    let mut working = door.connect().await;
    say(&mut working, "GET /work HTTP/1.1\r\nhost: x\r\n\r\n").await;
    read_until(&mut working, |text| text.contains("begin\n")).await;
    let mut idle = door.connect_many(100).await;
    for client in &mut idle {
        say(client, "GET /healthz HTTP/1.1\r\n").await;
    }
    door.is_well().await;
    let closed = || idle.iter().filter(|client| is_closed(client)).count();
    wait_for("the end of most idle connections", || closed() > 90).await;
    door.work_may_end.notify_one();
    let end = read_until(&mut working, |text| text.contains("end\n")).await;
    assert!(end.contains("end\n"), "a connection with a request was cut: {end}");
    drop((idle, working));
    door.close().await;
}

#[tokio::test]
async fn an_unused_connection_outlives_the_head_of_another() {
    let settings = ServeSettings { head_arrival_max: Duration::from_millis(100), ..ServeSettings::default() };
    let door = Door::start(settings).await;
    let (mut unused, mut used, mut begun) = (door.connect().await, door.connect().await, door.connect().await);
    say(&mut used, HEAD).await;
    read_until(&mut used, |text| text.ends_with("ok")).await;
    say(&mut begun, "GET").await;
    let late = read_until(&mut begun, |_| false).await;
    assert!(late.is_empty() || late.starts_with("HTTP/1.1 408"), "{late}");
    for client in [&mut unused, &mut used] {
        say(client, HEAD).await;
        let answer = read_until(client, |text| text.ends_with("ok")).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    drop((unused, used, begun));
    door.close().await;
}

/// Lets this much virtual time pass, while real sockets work on.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_client_that_pauses_sends_on_the_connection_of_its_pool() {
    let door = Door::start(ServeSettings::default()).await;
    let stream = TokioIo::new(door.connect().await);
    let (mut pooled, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    let scope = Scope::new();
    scope.start("client", async move { drop(connection.await) });
    // Pools keep a connection for 90 s, and do not repeat a POST that is lost with it.
    for pause in [0, 80, 89, 299] {
        pass(Duration::from_secs(pause)).await;
        // Time for the server to close what it thinks is too old.
        door.is_well().await;
        let request = hyper::Request::post("/healthz").header("host", "x").body(Body::from("{}")).unwrap();
        let answer = pooled.send_request(request).await.unwrap_or_else(|error| panic!("after {pause} s: {error}"));
        assert_eq!(answer.status(), StatusCode::OK);
        within("the body", answer.into_body().collect()).await.unwrap();
    }
    pass(Duration::from_secs(361)).await;
    wait_for("the end of an unused connection", || pooled.is_closed()).await;
    assert_eq!(scope.close(SOON).await, 0);
    door.close().await;
}

#[tokio::test]
async fn a_full_server_announces_that_it_closes_a_connection() {
    let door = Door::start(ServeSettings { connections_max: 1, ..ServeSettings::default() }).await;
    let mut client = door.connect().await;
    say(&mut client, HEAD).await;
    let answer = read_until(&mut client, |_| false).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("connection: close\r\n"), "{answer}");
    door.close().await;
    let door = Door::start(ServeSettings { connections_max: 2, ..ServeSettings::default() }).await;
    let mut client = door.connect().await;
    say(&mut client, HEAD).await;
    let answer = read_until(&mut client, |text| text.ends_with("ok")).await;
    assert!(!answer.contains("connection: close"), "{answer}");
    drop(client);
    door.close().await;
}
