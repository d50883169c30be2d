//! Slow clients: a limit ends each of them, and no other client waits for them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::{io::ErrorKind, sync::Arc, time::Duration};

use axum::{Router, body::Body, routing::get};
use futures_util::{StreamExt, stream};
use pandastack_door::{ServeSettings, serve_with};
use pandastack_kit::Scope;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

/// Timeout for anything that should happen by itself.
const SOON: Duration = Duration::from_secs(20);

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
        let app = Router::new().route("/healthz", get(|| async { "ok" })).route("/work", get(work));
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
    ServeSettings { head_arrival_max: Duration::from_millis(400), ..ServeSettings::default() }
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
