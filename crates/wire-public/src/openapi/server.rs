//! Routes about the server, its callers and its metrics.

use serde_json::json;

use super::operation::{Operation, query, route, yes_or_no};
use crate::{ApiKey, ApiKeys, Audit, AuditTrail, BootStats, CreateApiKey, Health, Me, MetricSeries, Version};

const SERVER: &str = "Server";
const KEYS: &str = "API keys";
const WATCHING: &str = "Watching";

pub fn operations() -> Vec<Operation> {
    let health = |path, about| route(SERVER, "GET", path, about).open().gives::<Health>(200).gives::<Health>(503);
    let version = |path, about| route(SERVER, "GET", path, about).open().gives::<Version>(200);
    let metrics = |path, about| {
        let metrics = route(SERVER, "GET", path, about).open().refuses(&[504]);
        metrics.gives_content(200, "application/openmetrics-text", json!({"type": "string"}))
    };
    vec![
        health("/healthz", "Report whether the server is healthy"),
        health("/v1/healthz", "Report whether the server is healthy (same as `/healthz`)"),
        version("/version", "Show the version of the server"),
        version("/v1/version", "Show the version of the server (same as `/version`)"),
        metrics("/metrics", "Metrics of the server, for Prometheus"),
        metrics("/v1/metrics", "Metrics of the server, for Prometheus (same as `/metrics`)"),
        route(SERVER, "GET", "/openapi.json", "This document").open().ours().gives_content(
            200,
            "application/json",
            json!({"type": "object"}),
        ),
        route(SERVER, "GET", "/docs", "This document as a web page").open().ours().gives_content(
            200,
            "text/html",
            json!({"type": "string"}),
        ),
        route(SERVER, "GET", "/v1/me", "Show the caller of this key").gives::<Me>(200),
        route(KEYS, "GET", "/v1/api-keys", "List the API keys of the workspace, newest first")
            .ours()
            .gives::<ApiKeys>(200),
        route(KEYS, "POST", "/v1/api-keys", "Create an API key; the only answer that shows it")
            .ours()
            .may_take::<CreateApiKey>(json!({"label": "ci", "expires_in_days": 30}))
            .gives::<ApiKey>(201),
        route(KEYS, "DELETE", "/v1/api-keys/{key}", "Revoke an API key, at once")
            .ours()
            .notes("Closes all requests, streams and WebSockets that were opened with the key.")
            .with(yes_or_no("force", "Revokes the key even if it is the last valid one."))
            .refuses(&[409])
            .gives_nothing(204),
        // These routes are for signed-in users, which do not exist yet.
        route(SERVER, "GET", "/v1/me/tokens", "List keys; refused for callers with a key"),
        route(SERVER, "POST", "/v1/me/tokens", "Create a key; refused for callers with a key"),
        route(SERVER, "DELETE", "/v1/me/tokens/{prefix}", "Revoke a key; refused for callers with a key"),
        span(route(WATCHING, "GET", "/v1/metrics/overview", "Usage of all sandboxes of the workspace over time")),
        span(route(WATCHING, "GET", "/v1/metrics/sandbox/{id}", "Usage of one sandbox over time")),
        route(WATCHING, "GET", "/v1/stats/boot", "Statistics of start times")
            .with(query(
                "limit",
                json!({"type": "integer", "minimum": 0}),
                "Maximum number of boots to list; 50 by default.",
            ))
            .gives::<BootStats>(200),
        route(WATCHING, "GET", "/v1/audit", "List the audit entries of the workspace")
            .with(query("since", json!({"type": "string", "format": "date-time"}), "Omits older entries."))
            .with(query("limit", json!({"type": "integer", "minimum": 0}), "Maximum number of entries."))
            .gives::<AuditTrail>(200),
        route(SERVER, "GET", "/v1/host/audit", "Compare what exists on the host with what should exist")
            .ours()
            .refuses(&[404, 502, 503, 504])
            .gives::<Audit>(200),
    ]
}

fn span(operation: Operation) -> Operation {
    let time = json!({"type": "string", "format": "date-time"});
    operation
        .with(query("from", time.clone(), "Start of the period; one hour before its end by default."))
        .with(query("to", time, "End of the period; now by default."))
        .with(query(
            "range",
            json!({"type": "string", "pattern": "^[0-9]{1,6}[smhd]$"}),
            "Length of the period, instead of `from`.",
        ))
        .with(query("step", json!({"type": "string", "enum": ["15s", "1m", "5m", "1h"]}), "Time between two values."))
        .gives::<MetricSeries>(200)
}
