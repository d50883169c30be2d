//! Routes about the server, its callers and its metrics.

use serde_json::json;

use super::operation::{Operation, query, route, yes_or_no};
use crate::{ApiKey, ApiKeys, Audit, AuditTrail, BootStats, CreateApiKey, Health, Me, MetricSeries, Version};

const SERVER: &str = "Server";
const KEYS: &str = "API keys";
const WATCHING: &str = "Watching";

pub fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    for path in ["/healthz", "/v1/healthz"] {
        all.push(route(SERVER, "GET", path).open().gives::<Health>(200).gives::<Health>(503));
    }
    for path in ["/version", "/v1/version"] {
        all.push(route(SERVER, "GET", path).open().gives::<Version>(200));
    }
    for path in ["/metrics", "/v1/metrics"] {
        let metrics = route(SERVER, "GET", path).open().refuses(&[504]);
        all.push(metrics.gives_content(200, "application/openmetrics-text", json!({"type": "string"})));
    }
    all.extend([
        route(SERVER, "GET", "/openapi.json").open().ours().gives_content(
            200,
            "application/json",
            json!({"type": "object"}),
        ),
        route(SERVER, "GET", "/docs").open().ours().gives_content(200, "text/html", json!({"type": "string"})),
        route(SERVER, "GET", "/v1/me").gives::<Me>(200),
        route(KEYS, "GET", "/v1/api-keys").ours().gives::<ApiKeys>(200),
        route(KEYS, "POST", "/v1/api-keys")
            .ours()
            .may_take::<CreateApiKey>(json!({"label": "ci", "expires_in_days": 30}))
            .gives::<ApiKey>(201),
        route(KEYS, "DELETE", "/v1/api-keys/{key}")
            .ours()
            .notes("Closes all requests, streams and WebSockets that were opened with the key.")
            .with(yes_or_no("force", "Revokes the key even if it is the last valid one."))
            .refuses(&[409])
            .gives_nothing(204),
        // These routes are for signed-in users, which do not exist yet.
        route(SERVER, "GET", "/v1/me/tokens"),
        route(SERVER, "POST", "/v1/me/tokens"),
        route(SERVER, "DELETE", "/v1/me/tokens/{prefix}"),
        span(route(WATCHING, "GET", "/v1/metrics/overview")),
        span(route(WATCHING, "GET", "/v1/metrics/sandbox/{id}")),
        route(WATCHING, "GET", "/v1/stats/boot")
            .with(query(
                "limit",
                json!({"type": "integer", "minimum": 0}),
                "Maximum number of boots to list; 50 by default.",
            ))
            .gives::<BootStats>(200),
        route(WATCHING, "GET", "/v1/audit")
            .with(query("since", json!({"type": "string", "format": "date-time"}), "Omits older entries."))
            .with(query("limit", json!({"type": "integer", "minimum": 0}), "Maximum number of entries."))
            .gives::<AuditTrail>(200),
        route(SERVER, "GET", "/v1/host/audit").ours().refuses(&[404, 502, 503, 504]).gives::<Audit>(200),
    ]);
    all
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
