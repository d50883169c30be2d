//! Signed links: `link-{hex}.{suffix}/v1/p/{token}/{path}`. The host name is derived from the
//! token, so programs behind different links never share an origin, nor the API's origin. A browser
//! gets a cookie with the token and a redirect to `/{path}`, so that absolute paths of the program
//! work. Other clients are served at the address of the link.

use axum::{
    extract::{Request, State},
    http::{
        HeaderMap, HeaderValue, Method, StatusCode,
        header::{ACCEPT, CACHE_CONTROL, LOCATION, REFERRER_POLICY, SET_COOKIE},
        request::Parts,
    },
    response::{IntoResponse, Response},
};
use pandastack_door::http::{base_of, forwarded_proto};
use pandastack_model::{Fault, FaultKind, LinkLabel};
use pandastack_wire_fleet::{CallerKey, PreviewGrant};

use super::page::{PageRequest, PreviewFailure};
use crate::{
    Edge,
    limits::{LINK_COOKIE_BYTES_MAX, LINK_COOKIES_MAX},
    proxy::{AuthorizationOwner, LINK_COOKIE, LINK_COOKIE_TLS, ProxyTarget, carry, clean_query, take_link_tokens},
};

/// Redirects a link on the API's own host name, as older servers made them, to its own host name.
pub async fn moved(State(edge): State<Edge>, request: Request) -> Response {
    let asked = PageRequest::of(&request);
    let (head, _) = request.into_parts();
    moved_to(&edge, &head).await.unwrap_or_else(|failure| asked.refuse(failure))
}

async fn moved_to(edge: &Edge, head: &Parts) -> Result<Response, PreviewFailure> {
    let (token, path) = split(head.uri.path()).ok_or_else(|| PreviewFailure::Fault(Fault::no_sandbox()))?;
    let grant = edge.control.open_preview(token).await?;
    allowed(&grant, path)?;
    let suffix = edge.suffix.as_ref().ok_or_else(|| PreviewFailure::Fault(Fault::no_sandbox()))?;
    let base = base_of(&format!("{}.{suffix}", grant.label), &head.headers, &head.uri);
    let address = format!("{base}/v1/p/{token}{path}{}", clean_query(&head.uri));
    // A 307: temporary, and the client repeats method and body.
    Ok(redirect(StatusCode::TEMPORARY_REDIRECT, &address)?)
}

/// Serves a request to the host name of a link.
pub async fn link(edge: Edge, label: LinkLabel, request: Request) -> Response {
    let asked = PageRequest::of(&request);
    serve(&edge, label, request).await.unwrap_or_else(|failure| asked.refuse(failure))
}

async fn serve(edge: &Edge, label: LinkLabel, mut request: Request) -> Result<Response, PreviewFailure> {
    let cookies = take_link_tokens(request.headers_mut());
    let uri = request.uri().clone();
    if let Some((token, path)) = split(uri.path())
        && let Some(grant) = opened(edge, label, token).await?
    {
        allowed(&grant, path)?;
        let (token, path) = (token.to_owned(), format!("{path}{}", clean_query(&uri)));
        if token.len() <= LINK_COOKIE_BYTES_MAX && is_visit(request.method(), request.headers()) {
            return Ok(enter(label, edge, &token, &path, &request)?);
        }
        return pass_on(edge, &grant, path, request).await;
    }
    // Another preview's page may have set more such cookies for the whole domain. Only this host's
    // own token grants access.
    for token in cookies.iter().take(LINK_COOKIES_MAX) {
        if let Some(grant) = opened(edge, label, token).await? {
            allowed(&grant, uri.path())?;
            let path = format!("{}{}", uri.path(), clean_query(&uri));
            return pass_on(edge, &grant, path, request).await;
        }
    }
    let text = "this preview link is not valid, or the visit has expired; open the complete link again";
    Err(PreviewFailure::Fault(Fault::new(FaultKind::Unauthorized, "preview.bad_token", text)))
}

/// Opens a token if it belongs to this host name. An expired token, or the token of a deleted
/// sandbox, is an error.
async fn opened(edge: &Edge, label: LinkLabel, token: &str) -> Result<Option<PreviewGrant>, Fault> {
    match edge.control.open_preview(token).await {
        Ok(grant) if grant.label == label => Ok(Some(grant)),
        Ok(_) => Ok(None),
        // It may be a path of the program, or another program's cookie.
        Err(fault) if fault.kind == FaultKind::Unauthorized && !fault.text.contains("expired") => Ok(None),
        Err(fault) => Err(fault),
    }
}

fn allowed(grant: &PreviewGrant, path: &str) -> Result<(), PreviewFailure> {
    if grant.paths.allows(path) {
        return Ok(());
    }
    Err(PreviewFailure::Outside { requested: path.to_owned(), allowed: grant.paths.as_slice().to_vec() })
}

async fn pass_on(
    edge: &Edge,
    grant: &PreviewGrant,
    path: String,
    request: Request,
) -> Result<Response, PreviewFailure> {
    let (credential, key) = (AuthorizationOwner::Anybody, CallerKey::default());
    let target = ProxyTarget { sandbox: grant.sandbox, port: grant.port, path, credential, key };
    let mut response = carry(edge, target, request).await?;
    // The URL may contain the token. Other sites must not learn it from a `Referer`.
    response.headers_mut().entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("same-origin"));
    Ok(response)
}

/// Tells whether a person opens a page in a browser. Requests by programs and subresources do not
/// count. Neither do frames: in a frame of another site the browser would not send the cookie.
fn is_visit(method: &Method, headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let whole_page = match text("sec-fetch-dest") {
        Some(kind) => kind == "document",
        None => text(ACCEPT.as_str()).is_some_and(|accepted| accepted.to_ascii_lowercase().contains("text/html")),
    };
    method == Method::GET && whole_page && !headers.contains_key("upgrade")
}

/// Sets the link's cookie and redirects the browser to the page.
fn enter(label: LinkLabel, edge: &Edge, token: &str, path: &str, request: &Request) -> Result<Response, Fault> {
    let suffix = edge.suffix.as_ref().ok_or_else(Fault::no_sandbox)?;
    // An absolute URL: a path that starts with two slashes would name another host.
    let base = base_of(&format!("{label}.{suffix}"), request.headers(), request.uri());
    let mut response = redirect(StatusCode::SEE_OTHER, &format!("{base}{path}"))?;
    let cookie = match forwarded_proto(request.headers()) {
        "https" => format!("{LINK_COOKIE_TLS}={token}; Path=/; Secure; HttpOnly; SameSite=Lax"),
        _ => format!("{LINK_COOKIE}={token}; Path=/; HttpOnly; SameSite=Lax"),
    };
    response.headers_mut().insert(SET_COOKIE, HeaderValue::try_from(cookie).map_err(Fault::bug)?);
    Ok(response)
}

fn redirect(status: StatusCode, address: &str) -> Result<Response, Fault> {
    let bad = |_| Fault::new(FaultKind::Caller, "proxy.bad_request", "the path cannot be forwarded");
    let address = HeaderValue::from_str(address).map_err(bad)?;
    let mut response = status.into_response();
    response.headers_mut().insert(LOCATION, address);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(response)
}

/// Splits a path into the token and the unchanged rest.
fn split(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("/v1/p/")?;
    let (token, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Some((token, if path.is_empty() { "/" } else { path }))
}
