//! The client against servers that answer with chosen bytes.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use crate::{AddressPolicy, TrustRoots};

fn client(reach: AddressPolicy, limits: HttpLimits) -> HttpClient {
    let scope = Scope::new();
    HttpClient::new(Dialer::new(reach, TrustRoots::Host, scope.clone()), scope, limits)
}

/// Serves one connection: reads until the request contains `until`, then writes the answer. A
/// silent server keeps the connection open without an answer.
async fn served(listener: TcpListener, until: &'static str, answer: Option<Vec<u8>>) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(until) {
        if stream.read_buf(&mut seen).await.unwrap() == 0 {
            break;
        }
    }
    match answer {
        // The client may hang up before it has read everything.
        Some(bytes) => drop(stream.write_all(&bytes).await),
        None => drop(stream.read_buf(&mut Vec::new()).await),
    }
    String::from_utf8(seen).unwrap()
}

/// Sends one request to a server with a chosen answer. Returns what both have seen.
async fn tried(
    limits: HttpLimits,
    answer: Option<Vec<u8>>,
    change: impl FnOnce(&mut HttpRequest),
) -> (Result<HttpResponse, HttpError>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/a/b?c=d%20e", listener.local_addr().unwrap());
    let mut request = HttpRequest::get(Url::parse(&url).unwrap());
    change(&mut request);
    let until = if request.body.is_empty() { "\r\n\r\n" } else { "the end" };
    let client = client(AddressPolicy::Private, limits);
    tokio::join!(client.send(request), served(listener, until, answer))
}

fn plain(body: &str) -> Option<Vec<u8>> {
    Some(format!("HTTP/1.1 200 OK\r\nX-Kind: test\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

#[tokio::test]
async fn a_request_arrives_and_its_answer_returns() {
    let (answer, seen) = tried(HttpLimits::default(), plain("hello"), |request| {
        request.method = Method::POST;
        request.headers.insert("x-mine", HeaderValue::from_static("1"));
        request.headers.insert(HOST, HeaderValue::from_static("elsewhere.example"));
        request.headers.insert(CONTENT_LENGTH, HeaderValue::from_static("999"));
        request.body = Bytes::from_static(b"this is the end");
    })
    .await;
    let answer = answer.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (StatusCode::OK, &b"hello"[..]));
    assert_eq!(answer.headers["x-kind"], "test");
    let seen = seen.to_lowercase();
    assert!(seen.starts_with("post /a/b?c=d%20e http/1.1\r\n"), "{seen}");
    for line in ["host: 127.0.0.1:", "x-mine: 1\r\n", "content-length: 15\r\n", "connection: close\r\n"] {
        assert!(seen.contains(line), "{line} in {seen}");
    }
    assert!(!seen.contains("elsewhere") && !seen.contains("999"), "{seen}");
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let to = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n".to_vec();
    let answer = tried(HttpLimits::default(), Some(to), |_| {}).await.0.unwrap();
    assert_eq!(
        (answer.status.as_u16(), answer.headers[header::LOCATION].as_bytes()),
        (302, &b"http://127.0.0.1:1/"[..])
    );
}

#[tokio::test]
async fn an_answer_has_a_bound_in_bytes() {
    let limits = HttpLimits { head_bytes_max: 10_000, body_bytes_max: 100, ..HttpLimits::default() };
    assert_eq!(tried(limits, plain(&"x".repeat(100)), |_| {}).await.0.unwrap().body.len(), 100);
    let announced = tried(limits, plain(&"x".repeat(101)), |_| {}).await.0;
    assert!(matches!(announced, Err(HttpError::TooLarge { bytes_max: 100, .. })), "{announced:?}");
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
        "3c\r\n".to_owned() + &"x".repeat(60) + "\r\n3c\r\n" + &"x".repeat(60) + "\r\n"
    );
    let chunked = tried(limits, Some(chunked.into_bytes()), |_| {}).await.0;
    assert!(matches!(chunked, Err(HttpError::TooLarge { .. })), "{chunked:?}");
    let head = format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(10_000));
    let head = tried(limits, Some(head.into_bytes()), |_| {}).await.0;
    assert!(matches!(head, Err(HttpError::Protocol { .. })), "{head:?}");
}

#[tokio::test]
async fn an_answer_that_never_ends_is_given_up() {
    let limits = HttpLimits { answer_max: Duration::from_millis(50), ..HttpLimits::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let client = client(AddressPolicy::Private, limits);
    // The server's side ends because the client hangs up.
    let (answer, _) = tokio::join!(client.send(HttpRequest::get(url)), served(listener, "\r\n\r\n", None));
    assert!(matches!(answer, Err(HttpError::Slow { .. })), "{answer:?}");
}

#[tokio::test]
async fn a_body_that_is_cut_off_is_an_error() {
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc".to_vec();
    let answer = tried(HttpLimits::default(), Some(cut), |_| {}).await.0;
    assert!(matches!(answer, Err(HttpError::Protocol { .. })), "{answer:?}");
}

#[tokio::test]
async fn the_dialers_policy_applies() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let refused = client(AddressPolicy::Public, HttpLimits::default()).send(HttpRequest::get(url)).await;
    assert!(matches!(refused, Err(HttpError::Dial { cause: DialError::NotAllowed { .. }, .. })), "{refused:?}");
}

#[test]
fn only_plain_web_addresses_are_requested() {
    let parsed = |text: &str| target(&Url::parse(text).unwrap());
    let long = format!("https://a.example/{}", "x".repeat(HTTP_URL_BYTES_MAX));
    for text in ["ftp://a.example/", "file:///etc/passwd", "http://u:p@a.example/", "http://u@a.example", &long] {
        assert!(matches!(parsed(text), Err(HttpError::BadUrl { .. })), "{text}");
    }
    assert!(matches!(parsed("http://a.example:0/"), Err(HttpError::BadUrl { .. })));
    let v6 = DialTarget { host: "2606:4700::1".to_owned(), port: 443, tls: true };
    assert_eq!(parsed("https://[2606:4700::1]/x").unwrap(), v6);
}

#[test]
fn debug_output_has_no_secrets() {
    let mut request = HttpRequest::get(Url::parse("https://a.example/x?token=hidden").unwrap());
    request.headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer hidden"));
    request.body = Bytes::from_static(b"hidden");
    assert_eq!(format!("{request:?}"), "HttpRequest(GET https://a.example/x)");
    let answer = HttpResponse { status: StatusCode::OK, headers: request.headers, body: request.body };
    assert_eq!(format!("{answer:?}"), "HttpResponse(200, 6 bytes)");
}
