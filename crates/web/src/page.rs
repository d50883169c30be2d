//! Answers with a file of the dashboard, and the headers that confine its pages.

use axum::{
    body::Body,
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
        header::{
            ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
            ETAG, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
        },
    },
    response::{IntoResponse, Response},
};
use bytes::Bytes;

use crate::PackedFile;

/// What a page may load and do. Nothing is inline: the terminal and the editor use constructed
/// style sheets. Frames show previews, which are on other host names.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: \
                      blob:; media-src 'self' blob:; font-src 'self'; connect-src 'self'; worker-src 'self' blob:; \
                      manifest-src 'self'; frame-src 'self' http: https:; base-uri 'none'; form-action 'self'; \
                      frame-ancestors 'none'";

const FOREVER: &str = "public, max-age=31536000, immutable";

const NOT_BUILT: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>PandaStack</title>\n</head>\n\
    <body>\n<h1>PandaStack runs</h1>\n\
    <p>This program was built without the dashboard. Build it with <code>make build</code>, which needs Node.js.</p>\n\
    <p>The API works: see <a href=\"/docs\">its reference</a>.</p>\n</body>\n</html>\n";

/// Shows a file.
pub fn show(file: &PackedFile, immutable: bool, method: &Method, headers: &HeaderMap) -> Response {
    let tag = format!("\"{}\"", file.tag);
    let is_packed = accepts_gzip(headers);
    let mut response = if knows(headers, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let content = if is_packed { Bytes::from_static(file.packed) } else { Bytes::from(file.unpack()) };
        let length = HeaderValue::from(content.len());
        let mut response = Response::new(if *method == Method::HEAD { Body::empty() } else { Body::from(content) });
        response.headers_mut().insert(CONTENT_LENGTH, length);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(file.kind));
        if is_packed {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    };
    let caching = if immutable { FOREVER } else { "no-cache" };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    confine(response)
}

/// Answers a request for a file that this version does not have.
pub fn missing() -> Response {
    let text = "this file belongs to another version of the dashboard; load the page again\n";
    let mut response = (StatusCode::NOT_FOUND, text).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    confine(response)
}

/// The page of a program that was built without the dashboard.
pub fn not_built() -> Response {
    let mut response = NOT_BUILT.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    confine(response)
}

fn confine(mut response: Response) -> Response {
    let mut set = |name: HeaderName, value| response.headers_mut().insert(name, HeaderValue::from_static(value));
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(REFERRER_POLICY, "no-referrer");
    set(X_FRAME_OPTIONS, "DENY");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    set(HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()");
    response
}

/// Tells whether the client already has the content with this tag.
fn knows(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.trim().parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight != Some(0.0)
    })
}
