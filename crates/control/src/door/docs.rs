//! The committed API document, and a page that shows it. Both are public and contain nothing about
//! tenants.

use std::{io::Read, sync::LazyLock};

use axum::{
    http::{HeaderName, header},
    response::IntoResponse,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};

/// Compressed by the build script.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json.gz"));
static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    let mut text = String::new();
    GzDecoder::new(PACKED).read_to_string(&mut text).expect("our own build packed a text");
    text
});
const PAGE: &str = include_str!("docs.html");

/// Allows the page its own script and style by their digests, the request for the document, and
/// nothing else.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let allowed = |tag: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(inside(PAGE, tag))));
    format!(
        "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
        allowed("script"),
        allowed("style"),
    )
});

/// Serves the API document.
pub async fn document() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-cache")], DOCUMENT.as_str())
}

/// Serves the page.
pub async fn page() -> impl IntoResponse {
    let headers: [(HeaderName, &str); 4] = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, &POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, PAGE).into_response()
}

/// Returns the text between the only two tags of this name.
fn inside<'a>(page: &'a str, tag: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("<{tag}>")).unwrap_or_default();
    rest.split_once(&format!("</{tag}>")).unwrap_or_default().0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_the_committed_one() {
        assert!(*DOCUMENT == include_str!("../../../../docs/openapi.json"));
        assert!(PACKED.len() < DOCUMENT.len() / 4, "{}", PACKED.len());
    }

    #[test]
    fn the_page_has_one_script_and_one_style_and_needs_nobody_else() {
        for tag in ["script", "style"] {
            assert_eq!(PAGE.matches(&format!("<{tag}")).count(), 1);
            assert!(inside(PAGE, tag).len() > 100, "{tag}");
        }
        for foreign in ["http://", "https://", " style=", " onclick=", "innerHTML", "src=", "@import", " url(", ":url("]
        {
            assert!(!PAGE.contains(foreign), "{foreign}");
        }
    }
}
