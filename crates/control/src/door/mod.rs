//! The HTTP door: one file per resource. Authenticates, parses, calls a method of `Control`,
//! renders. No SQL, and no host calls except reads.

mod audit;
mod builds;
mod caller;
mod deliveries;
mod docs;
mod egress;
mod events;
mod forks;
mod health;
mod keys;
mod lifecycle;
mod me;
mod metrics;
mod ports;
mod sandboxes;
mod snapshots;
mod stats;
mod templates;
mod tokens;
mod trail;
mod tree;
mod volumes;
mod webhooks;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    routing::{delete, get, post},
};
use pandastack_door::http::{Routes, frame, no_method, no_route};

use crate::Control;

/// All routes of the control plane.
pub fn router(control: Control) -> Router {
    let routes = routes().into_router().method_not_allowed_fallback(no_method).fallback(no_route);
    frame(control.idempotency_keys().layer(routes)).with_state(control)
}

/// The bare routes. A test compares them with the API document.
pub fn routes() -> Routes<Control> {
    Routes::new()
        .route("/healthz", get(health::health))
        .route("/v1/healthz", get(health::health))
        .route("/version", get(health::version))
        .route("/v1/version", get(health::version))
        .route("/metrics", get(metrics::prometheus))
        .route("/v1/metrics", get(metrics::prometheus))
        .route("/openapi.json", get(docs::document))
        .route("/docs", get(docs::page))
        .route("/v1/me", get(me::me))
        .route("/v1/me/tokens", get(tokens::refuse).post(tokens::refuse))
        .route("/v1/me/tokens/{prefix}", delete(tokens::refuse))
        .route("/v1/api-keys", get(keys::list).post(keys::create))
        .route("/v1/api-keys/{key}", delete(keys::revoke))
        .route("/v1/metrics/overview", get(metrics::overview))
        .route("/v1/metrics/sandbox/{id}", get(metrics::sandbox_series))
        .route("/v1/stats/boot", get(stats::boot))
        .route("/v1/audit", get(trail::list))
        .route("/v1/templates", get(templates::list))
        .route("/v1/templates/{name}", get(templates::get).delete(templates::delete))
        .route("/v1/templates/build", post(builds::build).layer(DefaultBodyLimit::disable()))
        .route("/v1/templates/builds", get(builds::list))
        .route("/v1/templates/builds/{build}", get(builds::get))
        .route("/v1/templates/builds/{build}/logs", get(builds::logs))
        .route("/v1/sandboxes", get(sandboxes::list).post(sandboxes::create))
        .route("/v1/sandboxes/{id}", get(sandboxes::get).delete(sandboxes::delete))
        .route("/v1/sandboxes/{id}/pause", post(lifecycle::pause))
        .route("/v1/sandboxes/{id}/resume", post(lifecycle::resume))
        .route("/v1/sandboxes/{id}/hibernate", post(lifecycle::hibernate))
        .route("/v1/sandboxes/{id}/stop", post(lifecycle::hibernate))
        .route("/v1/sandboxes/{id}/wake", post(lifecycle::wake))
        .route("/v1/sandboxes/{id}/start", post(lifecycle::wake))
        .route("/v1/sandboxes/{id}/lifecycle", get(lifecycle::show).patch(lifecycle::change))
        .route("/v1/sandboxes/{id}/egress", get(egress::show).put(egress::change))
        .route("/v1/sandboxes/{id}/events", get(events::list))
        .route("/v1/sandboxes/{id}/metrics", get(metrics::sandbox))
        .route("/v1/sandboxes/{id}/snapshots", post(snapshots::create))
        .route("/v1/sandboxes/{id}/fork", post(forks::fork))
        .route("/v1/sandboxes/{id}/fork-tree", post(forks::tree))
        .route("/v1/sandboxes/{id}/promote", post(forks::promote))
        .route("/v1/sandboxes/{id}/tree", get(tree::show))
        .route("/v1/sandboxes/{id}/ports", get(ports::list).post(ports::declare))
        .route("/v1/sandboxes/{id}/ports/{port}", delete(ports::undeclare))
        .route("/v1/sandboxes/{id}/preview-token", post(ports::preview))
        .route("/v1/sandboxes/{id}/preview", post(ports::preview))
        .route("/v1/snapshots", get(snapshots::list))
        .route("/v1/snapshots/{snapshot}", get(snapshots::get).delete(snapshots::delete))
        .route("/v1/volumes", get(volumes::list).post(volumes::create))
        .route("/v1/volumes/{name}", get(volumes::get).patch(volumes::grow).delete(volumes::delete))
        .route("/v1/webhooks", get(webhooks::list).post(webhooks::create))
        .route("/v1/webhooks/dead-letters", get(deliveries::dead))
        .route("/v1/webhooks/deliveries/{delivery}", get(deliveries::get))
        .route("/v1/webhooks/deliveries/{delivery}/replay", post(deliveries::replay))
        .route("/v1/webhooks/{webhook}", get(webhooks::get).patch(webhooks::change).delete(webhooks::delete))
        .route("/v1/webhooks/{webhook}/rotate-secret", post(webhooks::rotate))
        .route("/v1/webhooks/{webhook}/ping", post(webhooks::ping))
        .route("/v1/webhooks/{webhook}/deliveries", get(deliveries::list))
        .route("/v1/host/audit", get(audit::audit))
}
