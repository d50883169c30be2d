//! Signed previews: `/v1/p/{token}/{path}`. The token says which port of which sandbox, until when, and which paths.

use axum::{
    extract::{Request, State},
    http::{HeaderValue, header::REFERRER_POLICY},
    response::Response,
};
use pandastack_model::Fault;

use super::page::{Asked, Failure};
use crate::{
    Edge,
    proxy::{Credential, Target, carry, clean_query},
};

/// Passes a request on if its token is good and its path is inside of the token's rules.
pub async fn signed(State(edge): State<Edge>, request: Request) -> Response {
    let asked = Asked::of(&request);
    serve(&edge, request).await.unwrap_or_else(|failure| asked.refuse(failure))
}

async fn serve(edge: &Edge, request: Request) -> Result<Response, Failure> {
    let (token, path) = split(request.uri().path()).ok_or_else(|| Failure::Fault(Fault::no_sandbox()))?;
    let grant = edge.control.open_preview(token).await?;
    if !grant.paths.allows(path) {
        return Err(Failure::Outside { requested: path.to_owned(), allowed: grant.paths.as_slice().to_vec() });
    }
    let path = format!("{path}{}", clean_query(request.uri()));
    let target = Target { sandbox: grant.sandbox, port: grant.port, path, credential: Credential::Anybody };
    let mut response = carry(edge, target, request).await?;
    // The token is in the address: other sites must not learn it from a link.
    response.headers_mut().entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("same-origin"));
    Ok(response)
}

/// Takes a path apart: the token, and the rest as it was written.
fn split(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("/v1/p/")?;
    let (token, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Some((token, if path.is_empty() { "/" } else { path }))
}
