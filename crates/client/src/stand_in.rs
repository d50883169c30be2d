//! A server for tests: it shows what the client sent, and answers with chosen bytes.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::Config;

pub struct StandIn {
    listener: TcpListener,
}

/// A request as it arrived.
pub struct SeenRequest {
    /// Method and target.
    pub first: String,
    /// The head in lower case.
    pub head: String,
    pub body: String,
}

impl StandIn {
    pub async fn listen() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    /// A configuration for this server, without a key.
    pub fn config(&self) -> Config {
        let url = format!("http://{}", self.listener.local_addr().unwrap());
        Config::load_with(|_| None, None).unwrap().with_url(&url).unwrap()
    }

    /// Serves one request on a connection of its own.
    pub async fn answer(&self, status: u16, body: &str) -> SeenRequest {
        let (mut stream, _) = self.listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        let seen = loop {
            assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the client hung up");
            if let Some(seen) = whole(&String::from_utf8_lossy(&bytes)) {
                break seen;
            }
        };
        let length = body.len();
        let answer = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).await.unwrap();
        seen
    }
}

/// Reads a request. `None` until it is complete.
fn whole(text: &str) -> Option<SeenRequest> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let head_lower = head.to_lowercase();
    let length = head_lower.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or("0", str::trim);
    if body.len() < length.parse::<usize>().unwrap() {
        return None;
    }
    let first = head.lines().next()?.trim_end_matches(" HTTP/1.1").to_owned();
    Some(SeenRequest { first, head: head_lower, body: body.to_owned() })
}
