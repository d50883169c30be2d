//! Recognizes previews and signed links by the host name of a request, before all other routing.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use pandastack_door::http::pass;
use pandastack_door::{ConnectionHandle, occupy};
use pandastack_model::{BadPreview, Fault, FaultKind, PreviewName};
use pandastack_wire_fleet::CallerKey;

use super::{
    page::{PageRequest, PreviewFailure},
    signed::link as link_to,
};
use crate::{
    Edge,
    proxy::{AuthorizationOwner, ProxyTarget, carry, clean_query, host_of},
};

type ParsedPreviewName = Result<PreviewName, BadPreview>;

/// Serves requests for previews. All other requests go on to the API.
pub async fn by_host(State(edge): State<Edge>, request: Request, next: Next) -> Response {
    let host = host_of(request.headers(), request.uri());
    let (named, link) = match edge.suffix.as_ref().zip(host) {
        Some((suffix, host)) => (suffix.preview(host), suffix.link(host)),
        None => (None, None),
    };
    let (named, link) = match (named, link) {
        (None, None) => return next.run(request).await,
        found => found,
    };
    let connection = request.extensions().get::<ConnectionHandle>().cloned();
    pass(request, |request| async move {
        // Visitors have no key, so all of them share one part of the connections.
        let place = match edge.connections.take(None) {
            Ok(place) => place,
            Err(fault) => return PageRequest::of(&request).refuse(PreviewFailure::Fault(fault)),
        };
        let response = match (named, link) {
            (Some(named), _) => answer(edge, named, request).await,
            (None, Some(label)) => link_to(edge, label, request).await,
            (None, None) => unreachable!("one of the two was found above"),
        };
        occupy(response, Some(place), connection)
    })
    .await
}

async fn answer(edge: Edge, named: ParsedPreviewName, request: Request) -> Response {
    let asked = PageRequest::of(&request);
    let served = serve(&edge, named, request).await;
    served.unwrap_or_else(|fault| asked.refuse(PreviewFailure::Fault(fault)))
}

async fn serve(edge: &Edge, named: ParsedPreviewName, request: Request) -> Result<Response, Fault> {
    let PreviewName { port, sandbox } = named.map_err(|bad| match bad {
        BadPreview::Sandbox => Fault::no_sandbox(),
        BadPreview::Port(bad) => Fault::new(FaultKind::Missing, "port.bad_port", bad.to_string()),
    })?;
    edge.control.admit_anyone(sandbox).await?;
    let uri = request.uri();
    let path = format!("{}{}", uri.path(), clean_query(uri));
    carry(
        edge,
        ProxyTarget { sandbox, port, path, credential: AuthorizationOwner::Anybody, key: CallerKey::default() },
        request,
    )
    .await
}
