//! Health and version. Both are public, so they contain nothing about tenants.

use axum::{Json, extract::State, http::StatusCode};
use pandastack_model::Tier;
use pandastack_wire_public::{Health, Version};

use crate::{Control, limits::HEALTH_MAX};

/// Reports whether the database and the host answer.
pub async fn health(State(control): State<Control>) -> (StatusCode, Json<Health>) {
    let database = matches!(tokio::time::timeout(HEALTH_MAX, control.store.ping()).await, Ok(Ok(())));
    let host = tokio::time::timeout(HEALTH_MAX, control.host.status()).await.ok();
    let word = |well: bool| if well { "ok" } else { "no answer" };
    let (machines, isolation) = match (control.host.is_here(), &host) {
        (false, _) => ("none", "none"),
        (true, host) => (word(host.is_some()), host.as_ref().map_or("unknown", |status| status.tier.as_str())),
    };
    let checks = [("database", word(database)), ("host", machines), ("isolation", isolation)];
    let checks = checks.map(|(name, state)| (name.to_owned(), state.to_owned()));
    let (code, status) = if database && host.is_some() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "unhealthy")
    };
    (code, Json(Health { status: status.to_owned(), checks: checks.into() }))
}

/// Shows the version of the server.
pub async fn version(State(control): State<Control>) -> Json<Version> {
    described(&control, "pandastack-api").await
}

/// Shows the version of what runs the sandboxes. It is the same server under another name, by which
/// published clients recognise it.
pub async fn agent_version(State(control): State<Control>) -> Json<Version> {
    described(&control, "pandastack-agent").await
}

/// Tells the version, and how strongly sandboxes are isolated from the host.
async fn described(control: &Control, service: &str) -> Json<Version> {
    let tier = tokio::time::timeout(HEALTH_MAX, control.host.status()).await.ok().map(|status| status.tier);
    let tier = tier.filter(|_| control.host.is_here());
    Json(Version {
        service: service.to_owned(),
        semver: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("PANDASTACK_COMMIT").unwrap_or("unknown").to_owned(),
        build_time: option_env!("PANDASTACK_BUILD_TIME").unwrap_or("unknown").to_owned(),
        go: "none".to_owned(),
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        isolation: tier.map(|tier| tier.to_string()),
        isolation_warning: tier.and_then(Tier::warning).map(str::to_owned),
    })
}
