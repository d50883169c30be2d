//! The error that a visitor without a key sees when a preview fails: an HTML page for browsers, the
//! API's error body for programs.

use axum::{
    Json,
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use pandastack_door::http::{RequestId, log_fault};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_public::{ErrorBody, RefusedPath, reply};

/// Why a preview is not shown.
#[derive(Debug)]
pub enum PreviewFailure {
    Fault(Fault),
    /// The token's rules do not allow the path.
    Outside {
        requested: String,
        allowed: Vec<String>,
    },
}

impl From<Fault> for PreviewFailure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// The parts of a request that an error answer needs.
pub struct PageRequest {
    request: String,
    html: bool,
}

impl PageRequest {
    /// Reads them before the request is passed on.
    pub fn of(request: &Request) -> Self {
        let id = request.extensions().get::<RequestId>();
        let accepted = request.headers().get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let html = accepted.into_iter().any(|value| value.to_ascii_lowercase().contains("text/html"));
        Self { request: id.map(|RequestId(id)| id.clone()).unwrap_or_default(), html }
    }

    /// Renders a failure and logs it.
    pub fn refuse(&self, failure: PreviewFailure) -> Response {
        let (status, body, outside) = match failure {
            PreviewFailure::Fault(fault) => {
                log_fault(&fault, &self.request);
                let reply = reply(&fault, &self.request);
                let status = if stands_still(&fault) { 503 } else { reply.status };
                (StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), reply.body, None)
            }
            PreviewFailure::Outside { requested, allowed } => {
                let error = "this preview link does not allow that path".to_owned();
                let code = "preview.path_not_allowed".to_owned();
                let body = ErrorBody { error, code, request_id: self.request.clone(), detail: None, workspace: None };
                (StatusCode::FORBIDDEN, body, Some((requested, allowed)))
            }
        };
        let mut response = match outside {
            _ if self.html => (status, Html(page(status, &body))).into_response(),
            None => (status, Json(body)).into_response(),
            Some((requested, allowed_paths)) => {
                (status, Json(RefusedPath { body, requested, allowed_paths })).into_response()
            }
        };
        let mut set = |name, value| response.headers_mut().insert(name, HeaderValue::from_static(value));
        set(header::CACHE_CONTROL, "no-store");
        set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        response
    }
}

/// Tells whether the sandbox exists but cannot serve now. The API calls that a conflict; a visitor
/// gets 503, which means to try again later.
fn stands_still(fault: &Fault) -> bool {
    fault.kind == FaultKind::Conflict && fault.code.starts_with("sandbox.")
}

fn page(status: StatusCode, body: &ErrorBody) -> String {
    let (number, reason) = (status.as_u16(), status.canonical_reason().unwrap_or("Error"));
    let said = escape(body.detail.as_deref().unwrap_or(&body.error));
    let (code, request) = (escape(&body.code), escape(&body.request_id));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{number} {reason}</title>\n\
         <style>body{{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:20vh auto 0;padding:0 1rem;\
         color-scheme:light dark}}small{{opacity:.6}}</style>\n</head>\n<body>\n<h1>{number} {reason}</h1>\n\
         <p>{said}</p>\n<p><small>{code} {request}</small></p>\n</body>\n</html>\n"
    )
}

fn escape(text: &str) -> String {
    let escaped = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\'' => "&#39;".to_owned(),
        other => other.to_string(),
    };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_is_text_and_nothing_else() {
        let error = "<script>alert('x')</script> & \"more\"".to_owned();
        let body = ErrorBody { error, code: "c".into(), request_id: "<b>".into(), detail: None, workspace: None };
        let page = page(StatusCode::BAD_GATEWAY, &body);
        assert!(!page.contains("<script") && !page.contains("<b>"), "{page}");
        assert!(
            page.contains("<h1>502 Bad Gateway</h1>") && page.contains("&lt;script&gt;alert(&#39;x&#39;)"),
            "{page}"
        );
    }
}
