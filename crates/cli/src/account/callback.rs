//! Receives the code of a login from the browser, on a loopback port. Any program on this computer
//! can connect: everything is bounded, and a wrong code is worth nothing without the verifier.

use std::time::Duration;

use anyhow::{Context, bail};
use pandastack_kit::Secret;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// How long the person may take in the browser.
const LOGIN_MAX: Duration = Duration::from_secs(300);
/// How long one connection may take. The next one waits meanwhile.
const CONNECTION_MAX: Duration = Duration::from_secs(5);
/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Longest reason of a refusal that is shown.
const REASON_CHARS_MAX: usize = 200;

const CONTINUES: &str = "The login continues in the terminal. You can close this page.";
const REFUSED: &str = "The login was refused. The terminal shows the reason. You can close this page.";
const NOT_HERE: &str = "There is nothing at this address.";

/// A loopback port that waits for a browser.
pub struct CallbackListener {
    listener: TcpListener,
    url: String,
}

/// What a request brings.
#[derive(Debug, PartialEq, Eq)]
enum CallbackRequest {
    Code(String),
    Refused(String),
    /// Such as the browser's search for an icon.
    Other,
}

impl CallbackListener {
    /// Opens a free port.
    pub async fn bind() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("open a port for the browser")?;
        let url = format!("http://{}/", listener.local_addr().context("open a port for the browser")?);
        Ok(Self { listener, url })
    }

    /// Returns the address to which the browser brings the code.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Waits for the code. Serves one connection at a time.
    pub async fn code(self) -> anyhow::Result<Secret<String>> {
        let Ok(code) = timeout(LOGIN_MAX, self.serve()).await else {
            bail!("no login within {} minutes; try again", LOGIN_MAX.as_secs() / 60);
        };
        code
    }

    async fn serve(&self) -> anyhow::Result<Secret<String>> {
        loop {
            let (stream, _) = self.listener.accept().await.context("wait for the browser")?;
            match timeout(CONNECTION_MAX, serve_one(stream)).await {
                Ok(CallbackRequest::Code(code)) => return Ok(Secret::new(code)),
                Ok(CallbackRequest::Refused(reason)) => bail!("the login was refused: {reason}"),
                Ok(CallbackRequest::Other) | Err(_) => {}
            }
        }
    }
}

/// Reads one request and answers it. A connection without a request brings nothing.
async fn serve_one(mut stream: TcpStream) -> CallbackRequest {
    let Some(head) = read_head(&mut stream).await else { return CallbackRequest::Other };
    let request = parse(&head);
    let (status, text) = match &request {
        CallbackRequest::Code(_) => ("200 OK", CONTINUES),
        CallbackRequest::Refused(_) => ("200 OK", REFUSED),
        CallbackRequest::Other => ("404 Not Found", NOT_HERE),
    };
    let page = format!("<!doctype html><meta charset=\"utf-8\"><title>PandaStack</title><p>{text}</p>\n");
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{page}",
        page.len()
    );
    // The code counts even if the browser does not wait for the page.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    request
}

/// Reads up to the end of the head. `None` if it does not come or is too long.
async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    while head.len() < HEAD_BYTES_MAX {
        let count = stream.read(&mut piece).await.ok().filter(|count| *count > 0)?;
        head.extend_from_slice(&piece[..count]);
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Some(String::from_utf8_lossy(&head).into_owned());
        }
    }
    None
}

fn parse(head: &str) -> CallbackRequest {
    let target = head.strip_prefix("GET ").and_then(|rest| rest.split([' ', '\r', '\n']).next());
    let Some(query) = target.and_then(|target| target.strip_prefix("/?")) else { return CallbackRequest::Other };
    let value = |name: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.into_owned())
    };
    if let Some(code) = value("code") {
        return CallbackRequest::Code(code);
    }
    match value("error_description").or_else(|| value("error")) {
        Some(reason) => {
            let plain = reason.chars().filter(|letter| !letter.is_control());
            CallbackRequest::Refused(plain.take(REASON_CHARS_MAX).collect())
        }
        None => CallbackRequest::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, expected: CallbackRequest) {
        assert_eq!(parse(head), expected, "{head}");
    }

    #[test]
    fn only_a_get_of_the_root_brings_a_code() {
        let code = |text: &str| CallbackRequest::Code(text.to_owned());
        let refused = |text: &str| CallbackRequest::Refused(text.to_owned());
        check("GET /?code=abc HTTP/1.1\r\nhost: x\r\n\r\n", code("abc"));
        check("GET /?state=1&code=a%2Fb HTTP/1.1\r\n\r\n", code("a/b"));
        check("GET /?error=access_denied HTTP/1.1\r\n\r\n", refused("access_denied"));
        check("GET /?error=x&error_description=Not%0D%0A+you HTTP/1.1\r\n\r\n", refused("Not you"));
        check(&format!("GET /?error={} HTTP/1.1\r\n\r\n", "e".repeat(900)), refused(&"e".repeat(REASON_CHARS_MAX)));
        for other in
            ["GET /favicon.ico HTTP/1.1", "POST /?code=abc HTTP/1.1", "GET /x?code=abc HTTP/1.1", "GET /?code= ", ""]
        {
            check(other, CallbackRequest::Other);
        }
    }

    /// Sends bytes as a browser, and returns the answer.
    async fn sent(url: &str, bytes: &[u8]) -> String {
        let address = url.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(address).await.unwrap();
        // A connection that is refused in the middle of its request may be reset.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn other_requests_are_answered_until_the_code_comes() {
        let listener = CallbackListener::bind().await.unwrap();
        let url = listener.url().to_owned();
        let browser = async {
            let icon = sent(&url, b"GET /favicon.ico HTTP/1.1\r\n\r\n").await;
            assert!(icon.starts_with("HTTP/1.1 404 "), "{icon}");
            let long = sent(&url, &b"GET /?code=long HTTP/1.1\r\nx: ".repeat(HEAD_BYTES_MAX / 20)).await;
            assert!(!long.starts_with("HTTP/1.1 200 "), "{long}");
            sent(&url, b"GET /?code=abc HTTP/1.1\r\nhost: x\r\n\r\n").await
        };
        let (code, page) = tokio::join!(listener.code(), browser);
        assert_eq!(code.unwrap().reveal(), "abc");
        assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains(CONTINUES), "{page}");
        assert!(!page.contains("abc"), "{page}");
    }

    #[tokio::test]
    async fn a_refusal_ends_the_login_with_its_reason() {
        let listener = CallbackListener::bind().await.unwrap();
        let url = listener.url().to_owned();
        let (code, page) = tokio::join!(listener.code(), sent(&url, b"GET /?error=access_denied HTTP/1.1\r\n\r\n"));
        let error = code.map(|_| ()).unwrap_err().to_string();
        assert_eq!(error, "the login was refused: access_denied");
        assert!(page.contains(REFUSED) && !page.contains("access_denied"), "{page}");
    }
}
