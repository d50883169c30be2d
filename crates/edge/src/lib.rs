//! The data door: bytes to and from sandboxes, never business rules. Asks control who may pass, asks the host to serve,
//! and copies in between without ever holding a whole body.

mod access;
mod exec;
mod files;
pub mod limits;
mod serve;
mod socket;

use std::sync::Arc;

use axum::{
    Router,
    routing::{get, post},
};
use pandastack_kit::Scope;
use pandastack_wire_fleet::{ControlPort, HostPort};
use pandastack_wire_public::http::{frame, no_method};
pub use serve::serve;

use crate::{exec::Budget, socket::Sockets};

/// The edge. Clones are the same one.
#[derive(Clone)]
pub struct Edge {
    control: Arc<dyn ControlPort>,
    host: Arc<dyn HostPort>,
    /// Memory that whole answers of commands may take together.
    budget: Budget,
    sockets: Sockets,
}

impl Edge {
    /// Makes an edge between a control plane and a host. Sockets, which outlive their request, belong to the scope.
    pub fn new(control: Arc<dyn ControlPort>, host: Arc<dyn HostPort>, scope: Scope) -> Self {
        Self { control, host, budget: Budget::new(limits::COLLECTED_BYTES_MAX), sockets: Sockets::new(scope) }
    }

    /// Gives the routes of this room, with everything that surrounds a request. Paths it does not know are left to control.
    pub fn router(&self) -> Router {
        let routes = Router::new()
            .route("/v1/sandboxes/{id}/exec", post(exec::whole))
            .route("/v1/sandboxes/{id}/exec/stream", post(exec::stream))
            .route("/v1/sandboxes/{id}/exec/ws", get(socket::exec))
            .route("/v1/sandboxes/{id}/exec/pty", get(socket::pty))
            .route("/v1/sandboxes/{id}/ssh", get(socket::ssh))
            .route("/v1/sandboxes/{id}/fs", get(files::read).put(files::write).delete(files::delete))
            .route("/v1/sandboxes/{id}/fs/dir", get(files::list))
            .route("/v1/sandboxes/{id}/fs/stat", get(files::stat))
            .method_not_allowed_fallback(no_method);
        frame(routes).with_state(self.clone())
    }
}
