//! Raw connections: bytes that no HTTP client would send.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::rig::{Door, KEY, within};

pub struct Raw(pub TcpStream);

impl Door<'_> {
    /// Opens a raw connection.
    pub async fn raw(&self) -> Raw {
        Raw(TcpStream::connect(self.url.strip_prefix("http://").unwrap()).await.unwrap())
    }
}

/// The head of a request with a key and further lines.
pub fn head(method: &str, path: &str, more: &str) -> String {
    head_as(KEY, method, path, more)
}

/// The head of a request with another credential.
pub fn head_as(token: &str, method: &str, path: &str, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n{more}\r\n")
}

impl Raw {
    pub async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        // The server may have closed the connection. Its answer will show that.
        let _ = self.0.write_all(bytes.as_ref()).await;
    }

    /// Reads until the text satisfies the condition, and returns it. At an early end, returns the
    /// text so far.
    pub async fn until(&mut self, enough: impl Fn(&str) -> bool) -> String {
        let mut text = Vec::new();
        let reading = async {
            let mut piece = [0; 4096];
            loop {
                match self.0.read(&mut piece).await {
                    Ok(0) | Err(_) => break,
                    Ok(count) => text.extend_from_slice(&piece[..count]),
                }
                if enough(&String::from_utf8_lossy(&text)) {
                    break;
                }
            }
        };
        within("bytes on a bare connection", reading).await;
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Reads to the end of the connection.
    pub async fn rest(&mut self) -> String {
        self.until(|_| false).await
    }

    /// Closes the sending side, but still reads.
    pub async fn finish(&mut self) {
        self.0.shutdown().await.unwrap();
    }
}
