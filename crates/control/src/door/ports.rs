//! Ports of a sandbox, and signed preview links to them.

use axum::{
    Json,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, StatusCode, Uri},
};
use pandastack_door::http::{Answer, SandboxPath, base_of, json_body, public_base};
use pandastack_model::{Fault, FaultKind, GuestPort, SandboxId};
use pandastack_wire_public::{
    DeclarePort, DeclaredPort, Port, Preview, PreviewRequest, PreviewSpec, preview_path, proxy_path, rfc3339,
};

use super::caller::Authenticated;
use crate::{Control, app::PortStatus};

/// Lists listening and declared ports by number.
pub async fn list(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Json<Vec<Port>>> {
    let (ports, base) = (control.ports(&caller, id).await?, public_base(&headers, &uri));
    Ok(Json(ports.into_iter().map(|port| render(port, id, &base)).collect()))
}

/// Declares a port.
pub async fn declare(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answer<(StatusCode, Json<Port>)> {
    let declared = DeclaredPort::try_from(json_body::<DeclarePort>(body).await?)?;
    let port = control.declare_port(&caller, id, declared).await?;
    Ok((StatusCode::CREATED, Json(render(port, id, &public_base(&headers, &uri)))))
}

/// Removes the declaration of a port.
pub async fn undeclare(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Answer<StatusCode> {
    let Ok(Path((id, port))) = path else { return Err(Fault::no_sandbox().into()) };
    let id: SandboxId = id.parse().map_err(|_| Fault::no_sandbox())?;
    let bad = |error| Fault::new(FaultKind::Caller, "port.bad_port", format!("{error}"));
    let port: GuestPort = port.parse().map_err(|error: pandastack_model::BadPort| bad(error))?;
    control.undeclare_port(&caller, id, port).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Signs a preview link.
pub async fn preview(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answer<Json<Preview>> {
    let ask = PreviewSpec::try_from(json_body::<PreviewRequest>(body).await?)?;
    let signed = control.sign_preview(&caller, id, &ask).await?;
    // Not the API's own host name: a sandbox must not share an origin with the API.
    let name = format!("{}.{}", signed.label, control.settings.preview_suffix);
    Ok(Json(Preview {
        url: format!("{}{}", base_of(&name, &headers, &uri), preview_path(&signed.token)),
        token: signed.token,
        sandbox_id: id.to_string(),
        port: ask.port.get(),
        paths: ask.paths.as_slice().to_vec(),
        expires_at: rfc3339(signed.expires_at_ns),
    }))
}

fn render(seen: PortStatus, id: SandboxId, base: &str) -> Port {
    let PortStatus { port, label, listener } = seen;
    Port {
        port: port.get(),
        source: if label.is_some() { "user" } else { "detected" }.to_owned(),
        label,
        listening: listener.is_some(),
        proxy_url: format!("{base}{}", proxy_path(id, port)),
        loopback_only: listener.as_ref().is_some_and(|listener| listener.loopback_only),
        process: listener.and_then(|listener| listener.process),
    }
}
