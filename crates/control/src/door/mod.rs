//! The HTTP door: one file per resource. Authenticates, parses, calls a verb, renders. No SQL, no host calls but reads.

mod caller;
mod health;
mod me;
mod sandboxes;
mod templates;

use axum::{Router, routing::get};
use pandastack_wire_public::http::{frame, no_method, no_route};

use crate::Control;

/// Gives every route of the control plane.
pub fn router(control: Control) -> Router {
    let routes = Router::new()
        .route("/healthz", get(health::health))
        .route("/v1/healthz", get(health::health))
        .route("/version", get(health::version))
        .route("/v1/version", get(health::version))
        .route("/v1/me", get(me::me))
        .route("/v1/templates", get(templates::list))
        .route("/v1/templates/{name}", get(templates::get))
        .route("/v1/sandboxes", get(sandboxes::list).post(sandboxes::create))
        .route("/v1/sandboxes/{id}", get(sandboxes::get).delete(sandboxes::delete))
        .method_not_allowed_fallback(no_method)
        .fallback(no_route);
    frame(routes).with_state(control)
}
