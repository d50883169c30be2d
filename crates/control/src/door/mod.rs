//! The HTTP door: one file per resource. Authenticates, parses, calls a method of `Control`,
//! renders. No SQL, and no host calls except reads.

mod audit;
mod auth;
mod billing;
mod builds;
mod caller;
mod databases;
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
mod new_session;
mod orgs;
mod ports;
mod quotas;
mod sandboxes;
mod snapshots;
mod stats;
mod templates;
mod tokens;
mod trail;
mod tree;
mod volumes;
mod webhooks;
mod workspace_events;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    routing::{delete, get, patch, post, put},
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
    database_routes(billing_routes(person_routes(Routes::new())))
        .route("/healthz", get(health::health))
        .route("/v1/healthz", get(health::health))
        .route("/version", get(health::version))
        .route("/v1/version", get(health::agent_version))
        .route("/metrics", get(metrics::prometheus))
        .route("/v1/metrics", get(metrics::prometheus))
        .route("/openapi.json", get(docs::document))
        .route("/docs", get(docs::page))
        .route("/v1/me", get(me::me))
        .route("/v1/quotas", get(quotas::show))
        .route("/v1/api-keys", get(keys::list).post(keys::create))
        .route("/v1/api-keys/{key}", delete(keys::revoke))
        .route("/v1/metrics/overview", get(metrics::overview))
        .route("/v1/metrics/sandbox/{id}", get(metrics::sandbox_series))
        .route("/v1/stats/boot", get(stats::boot))
        .route("/v1/events", get(workspace_events::list))
        .route("/v1/audit", get(trail::list))
        .route("/v1/audit/export", get(trail::export))
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

/// Adds the routes of persons: logins, their keys, and organisations.
fn person_routes(routes: Routes<Control>) -> Routes<Control> {
    routes
        .route("/v1/me/tokens", get(tokens::list).post(tokens::create))
        .route("/v1/me/tokens/{prefix}", delete(tokens::revoke))
        .route("/v1/me/current-org", post(orgs::choose))
        .route("/v1/auth", get(auth::methods))
        .route("/v1/auth/setup", post(auth::set_up))
        .route("/v1/auth/register", post(auth::register))
        .route("/v1/auth/login", post(auth::log_in))
        .route("/v1/auth/logout", post(auth::log_out))
        .route("/v1/auth/link", post(auth::use_link))
        .route("/v1/auth/links", post(auth::make_link))
        .route("/v1/auth/sessions", get(auth::sessions))
        .route("/v1/auth/sessions/{session}", delete(auth::end_session))
        .route("/v1/auth/password", post(auth::change_password))
        .route("/v1/auth/reset-request", post(auth::ask_reset))
        .route("/v1/auth/reset", post(auth::reset))
        .route("/v1/auth/oidc/start", get(auth::begin_oidc))
        .route("/v1/auth/oidc/callback", get(auth::end_oidc))
        .route("/v1/auth/oidc/token", post(auth::exchange))
        .route("/v1/orgs", get(orgs::list).post(orgs::create))
        .route("/v1/orgs/{org}", get(orgs::get).patch(orgs::rename).delete(orgs::delete))
        .route("/v1/orgs/{org}/leave", post(orgs::leave))
        .route("/v1/orgs/{org}/transfer", post(orgs::transfer))
        .route("/v1/orgs/{org}/members", get(orgs::members).post(orgs::invite))
        .route("/v1/orgs/{org}/members/{user}", patch(orgs::change_member).delete(orgs::remove_member))
        .route("/v1/orgs/{org}/invites", get(orgs::invites))
        .route("/v1/orgs/{org}/invites/{invite}", delete(orgs::withdraw))
        .route("/v1/orgs/invites/{token}", get(orgs::show_invite))
        .route("/v1/orgs/invites/{token}/accept", post(orgs::accept))
}

/// Adds the routes of managed databases. The edge has those that carry their queries.
fn database_routes(routes: Routes<Control>) -> Routes<Control> {
    routes
        .route("/v1/databases", get(databases::list).post(databases::create))
        .route("/v1/databases/{id}", get(databases::get).patch(databases::change).delete(databases::delete))
        .route("/v1/databases/{id}/connection", get(databases::connection))
        .route("/v1/databases/{id}/wake", post(databases::wake))
        .route("/v1/databases/{id}/reset-credentials", post(databases::reset_credentials))
        .route("/v1/databases/{id}/branches", post(databases::branch))
        .route("/v1/databases/{id}/reset", post(databases::reset))
        .route("/v1/databases/{id}/diff", get(databases::diff))
        .route("/v1/databases/{id}/restart", post(databases::restart))
        .route("/v1/databases/{id}/clone", post(databases::clone))
        .route("/v1/databases/{id}/failover", post(databases::failover))
        .route("/v1/databases/{id}/backups", get(databases::backups).post(databases::back_up))
        .route("/v1/databases/{id}/verify-backup", post(databases::verify_backup))
        .route("/v1/databases/{id}/stats", get(databases::stats))
        .route("/v1/databases/{id}/logs", get(databases::logs))
}

/// Adds the routes of prices, usage and bills.
fn billing_routes(routes: Routes<Control>) -> Routes<Control> {
    routes
        .route("/v1/pricing", get(billing::pricing))
        .route("/v1/billing", get(billing::show))
        .route("/v1/billing/sync", post(billing::sync))
        .route("/v1/usage", get(billing::usage))
        .route("/v1/usage/export", get(billing::export))
        .route("/v1/orgs/{org}/billing", get(billing::show_org))
        .route("/v1/orgs/{org}/usage", get(billing::org_usage))
        .route("/v1/orgs/{org}/usage/export", get(billing::export_org))
        .route("/v1/orgs/{org}/budget", put(billing::set_budget).delete(billing::remove_budget))
        .route("/v1/orgs/{org}/billing/checkout", post(billing::checkout))
        .route("/v1/orgs/{org}/billing/portal", post(billing::portal))
        .route("/v1/webhooks/stripe", post(billing::stripe_event))
}
