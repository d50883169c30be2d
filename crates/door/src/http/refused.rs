//! A fault as a response. It is an extension of the response until the frame, which knows the
//! request id, renders and logs it.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use pandastack_model::{Fault, FaultKind};

use pandastack_wire_public::reply;

/// The result of a door's handler.
pub type Answer<T = Response> = Result<T, Refused>;

/// A fault that a handler may return with `?`.
#[derive(Clone, Debug)]
pub struct Refused {
    fault: Box<Fault>,
    /// Set only where HTTP itself defines the status.
    status: Option<StatusCode>,
    /// The workspace that the refusal names.
    workspace: Option<String>,
}

impl Refused {
    /// Refuses with a status that no kind of fault has.
    pub fn with_status(status: StatusCode, fault: Fault) -> Self {
        Self { fault: Box::new(fault), status: Some(status), workspace: None }
    }

    /// Refuses and names the workspace whose limit was reached.
    pub(super) fn of_workspace(fault: Fault, workspace: &str) -> Self {
        Self { workspace: Some(workspace.to_owned()), ..Self::from(fault) }
    }

    /// Returns the fault.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// Returns status and body as the client sees them, without the request id.
    pub fn shown(&self) -> (u16, Vec<u8>) {
        let reply = reply(&self.fault, "");
        let body = serde_json::to_vec(&reply.body).expect("plain texts are always JSON");
        (self.status.map_or(reply.status, |status| status.as_u16()), body)
    }

    /// Renders and logs the fault.
    pub(super) fn render(self, request_id: &str) -> Response {
        let mut reply = reply(&self.fault, request_id);
        reply.body.workspace = self.workspace;
        log_fault(&self.fault, request_id);
        let status =
            self.status.or(StatusCode::from_u16(reply.status).ok()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(&reply.body)).into_response();
        if let Some(seconds) = reply.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Logs a fault at the level of its kind. Called once, by the door that returns the fault.
pub fn log_fault(fault: &Fault, request_id: &str) {
    match fault.kind {
        FaultKind::Bug => tracing::error!(request = request_id, "{fault}"),
        FaultKind::Unavailable => tracing::warn!(request = request_id, "{fault}"),
        _ => tracing::debug!(request = request_id, "{fault}"),
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self { fault: Box::new(fault), status: None, workspace: None }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(self);
        response
    }
}
