//! The proxy for callers with a key: `/v1/sandboxes/{id}/proxy/{port}/{path}`.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method},
    response::Response,
};
use pandastack_door::http::{Answer, RequestCredential, bearer, check_marked, is_data, preflight};
use pandastack_model::{Fault, FaultKind, GuestPort, SandboxId};

use super::{
    carry::{ProxyTarget, carry},
    head::{AuthorizationOwner, clean_used_query},
};
use crate::Edge;

/// Forwards a request to a port of the caller's sandbox, without the path prefix that names sandbox
/// and port.
pub async fn proxy(State(edge): State<Edge>, request: Request) -> Answer<Response> {
    let credential = RequestCredential::read(request.method(), request.headers(), request.uri());
    // A CORS preflight carries no credential. It is answered here, not by the guest.
    if credential.get().token.is_none() && request.method() == Method::OPTIONS {
        return Ok(preflight());
    }
    // A guest may act on any request, so that a cookie alone proves nothing, also for GET.
    if bearer(request.headers(), request.uri()).is_none() && credential.get().token.is_some() {
        check_marked(request.headers())?;
    }
    if is_script_of_ours(request.headers()) {
        let text = "a page of this server may not run what a guest wrote; open the port's preview instead";
        return Err(Fault::new(FaultKind::Forbidden, "proxy.script", text).into());
    }
    let caller = edge.control.authenticate(credential.get()).await?;
    let named = split(request.uri().path());
    let sandbox: Option<SandboxId> = named.and_then(|(id, _, _)| id.parse().ok());
    let (Some((_, port, path)), Some(sandbox)) = (named, sandbox) else { return Err(Fault::no_sandbox().into()) };
    edge.control.admit(&caller, sandbox).await?;
    let bad = |error| Fault::new(FaultKind::Caller, "port.bad_port", format!("{error}"));
    let port = port.parse::<GuestPort>().map_err(bad)?;
    let query = clean_used_query(request.uri(), request.headers());
    let path = format!("{}{query}", if path.is_empty() { "/" } else { path });
    Ok(carry(
        &edge,
        ProxyTarget { sandbox, port, path, credential: AuthorizationOwner::Platform, key: caller.key },
        request,
    )
    .await?)
}

/// Tells whether a page of this origin wants to run the answer, as a script or in another way.
/// Pages of guests have origins of their own.
fn is_script_of_ours(headers: &HeaderMap) -> bool {
    let is = |name, expected: &[u8]| headers.get(name).is_some_and(|value: &HeaderValue| value.as_bytes() == expected);
    is("sec-fetch-site", b"same-origin") && !is_data(headers)
}

/// Splits a path into sandbox, port and the unchanged rest.
fn split(path: &str) -> Option<(&str, &str, &str)> {
    let (id, rest) = path.strip_prefix("/v1/sandboxes/")?.split_once('/')?;
    let rest = rest.strip_prefix("proxy/")?;
    let (port, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Some((id, port, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_path_is_kept_as_it_was_written() {
        assert_eq!(split("/v1/sandboxes/a/proxy/80"), Some(("a", "80", "")));
        assert_eq!(split("/v1/sandboxes/a/proxy/80/"), Some(("a", "80", "/")));
        assert_eq!(split("/v1/sandboxes/a/proxy/80//x/%2e%2F/../y"), Some(("a", "80", "//x/%2e%2F/../y")));
        assert_eq!(split("/v1/sandboxes/a/exec"), None);
    }
}
