//! The data door: bytes to and from sandboxes, never business rules. Asks control who may pass, asks the host to serve,
//! and copies in between without ever holding a whole body.

mod access;
mod exec;
mod files;
pub mod limits;
mod serve;

use std::sync::Arc;

use axum::{
    Router,
    routing::{get, post},
};
use pandastack_wire_fleet::{ControlPort, HostPort};
use pandastack_wire_public::http::{frame, no_method};
pub use serve::serve;

use crate::exec::Budget;

/// The edge. Clones are the same one.
#[derive(Clone)]
pub struct Edge {
    control: Arc<dyn ControlPort>,
    host: Arc<dyn HostPort>,
    /// Memory that whole answers of commands may take together.
    budget: Budget,
}

impl Edge {
    /// Makes an edge between a control plane and a host.
    pub fn new(control: Arc<dyn ControlPort>, host: Arc<dyn HostPort>) -> Self {
        Self { control, host, budget: Budget::new(limits::COLLECTED_BYTES_MAX) }
    }

    /// Gives the routes of this room, with everything that surrounds a request. Paths it does not know are left to control.
    pub fn router(&self) -> Router {
        let routes = Router::new()
            .route("/v1/sandboxes/{id}/exec", post(exec::whole))
            .route("/v1/sandboxes/{id}/exec/stream", post(exec::stream))
            .route("/v1/sandboxes/{id}/fs", get(files::read).put(files::write).delete(files::delete))
            .route("/v1/sandboxes/{id}/fs/dir", get(files::list))
            .route("/v1/sandboxes/{id}/fs/stat", get(files::stat))
            .method_not_allowed_fallback(no_method);
        frame(routes).with_state(self.clone())
    }
}
