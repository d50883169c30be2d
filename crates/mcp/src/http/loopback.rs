//! Sends the tools' requests into the server's own routes with the caller's credential. They pass
//! authentication, rates, quotas and the audit trail as requests from outside do.

use async_trait::async_trait;
use axum::{
    Router,
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, Request, header, request::Parts},
};
use http_body_util::BodyExt;
use pandastack_door::{
    PeerAddress,
    http::{RequestId, TRACEPARENT, bearer, trace_header},
};
use pandastack_kit::trace::Trace;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tower::ServiceExt;

use crate::api::{Api, BodyWindow, RestAnswer, RestBody, RestRequest, RestToken};

/// Characters of a path that are not escaped.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Headers that say who the caller is and where it comes from.
const PASSED: [HeaderName; 7] = [
    HeaderName::from_static("x-pandastack-org"),
    HeaderName::from_static("x-stub-user"),
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-proto"),
    header::HOST,
    header::ORIGIN,
    header::USER_AGENT,
];

/// The server's own routes, for one caller.
pub struct LoopbackApi {
    app: Router,
    headers: HeaderMap,
    peer: Option<PeerAddress>,
}

impl LoopbackApi {
    /// Takes the caller from a request to `/mcp`.
    pub fn new(app: Router, parts: &Parts, trace: &Trace) -> Self {
        let mut headers = HeaderMap::new();
        for name in PASSED {
            headers.extend(parts.headers.get_all(&name).iter().map(|value| (name.clone(), value.clone())));
        }
        let token = bearer(&parts.headers, &parts.uri).map(|token| format!("Bearer {token}"));
        if let Some(token) = token.and_then(|token| HeaderValue::from_str(&token).ok()) {
            headers.insert(header::AUTHORIZATION, token);
        }
        headers.insert(TRACEPARENT, trace_header(trace));
        let id = parts.extensions.get::<RequestId>().and_then(|RequestId(id)| HeaderValue::from_str(id).ok());
        if let Some(id) = id {
            headers.insert("x-request-id", id);
        }
        Self { app, headers, peer: parts.extensions.get::<PeerAddress>().copied() }
    }

    fn request(&self, request: &RestRequest) -> Result<Request<Body>, String> {
        let path: Vec<String> =
            request.path.iter().map(|part| utf8_percent_encode(part, UNRESERVED).to_string()).collect();
        let mut uri = format!("/v1/{}", path.join("/"));
        if !request.query.is_empty() {
            let pairs = form_urlencoded::Serializer::new(String::new()).extend_pairs(&request.query).finish();
            uri = format!("{uri}?{pairs}");
        }
        let (kind, body) = match &request.body {
            RestBody::None => (None, Body::empty()),
            RestBody::Json(value) => (Some("application/json"), Body::from(value.to_string())),
            RestBody::Bytes(bytes) => (Some("application/octet-stream"), Body::from(bytes.clone())),
        };
        let made = Request::builder().method(request.method).uri(uri).body(body);
        let mut made = made.map_err(|_| "the arguments do not make a valid request".to_owned())?;
        *made.headers_mut() = self.headers.clone();
        if let Some(token) = &request.token {
            made.headers_mut().insert(header::AUTHORIZATION, authorization(token)?);
        }
        if let Some(kind) = kind {
            made.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        if let Some(peer) = self.peer {
            made.extensions_mut().insert(peer);
        }
        Ok(made)
    }

    async fn send(&self, request: RestRequest) -> Result<RestAnswer, String> {
        let inner = self.request(&request)?;
        let Ok(response) = self.app.clone().oneshot(inner).await;
        let status = response.status().as_u16();
        let (mut body, mut window) = (response.into_body(), BodyWindow::new(request.skip, request.take));
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| "the answer ended early; try again".to_owned())?;
            if let Some(piece) = frame.data_ref()
                && !window.push(piece)
            {
                break;
            }
        }
        Ok(RestAnswer { status, body: window.body, more: window.more })
    }
}

/// Makes the header of a token.
fn authorization(token: &RestToken) -> Result<HeaderValue, String> {
    let value = HeaderValue::from_str(&format!("Bearer {}", token.reveal()));
    let mut value = value.map_err(|_| "the API told a token that cannot be sent".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

#[async_trait]
impl Api for LoopbackApi {
    async fn call(&self, request: RestRequest) -> Result<RestAnswer, String> {
        let limit = request.timeout;
        match tokio::time::timeout(limit, self.send(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {} seconds", limit.as_secs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::{http::Uri, routing::any};

    use super::*;

    async fn told(headers: HeaderMap, uri: Uri) -> String {
        let credentials = headers.get_all(header::AUTHORIZATION).iter();
        let credentials: Vec<_> = credentials.map(|value| value.to_str().unwrap()).collect();
        format!("{uri} {}", credentials.join(", "))
    }

    #[tokio::test]
    async fn a_token_replaces_the_credential_of_its_request_alone() {
        let app = Router::new().route("/{*path}", any(told));
        let from = Request::builder().header(header::AUTHORIZATION, "Bearer pds_1").body(()).unwrap();
        let api = LoopbackApi::new(app, &from.into_parts().0, &Trace::begin());
        let request = RestRequest::new("POST", &["databases", "d", "proxy", "v1", "query"]);
        let said = api.call(request.clone().bearing("pds_pg_1")).await.unwrap().text();
        assert_eq!(said, "/v1/databases/d/proxy/v1/query Bearer pds_pg_1");
        let said = api.call(request.clone()).await.unwrap().text();
        assert_eq!(said, "/v1/databases/d/proxy/v1/query Bearer pds_1");
        let split = api.call(request.clone().bearing("pds_pg_1\r\nx: y")).await.unwrap_err();
        assert!(!split.contains("pds_pg_1"), "{split}");
        assert!(!format!("{:?}", request.bearing("pds_pg_1")).contains("pds_pg_1"));
    }
}
