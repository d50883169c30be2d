//! Routes about the server, its callers and its metrics.

use serde_json::json;

use super::operation::{Operation, kinds, ours, query, route, shape, yes_or_no};
use crate::{
    ApiKey, ApiKeys, Audit, AuditTrail, BootStats, CreateApiKey, EventPlace, ExportedAuditEntry, Health, Me,
    MetricSeries, Quotas, Version, WorkspaceEvent, WorkspaceEvents,
};

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
        version("/v1/version", "Show the version of what runs the sandboxes"),
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
        route(SERVER, "GET", "/.well-known/oauth-protected-resource", "Where OAuth clients get a token (RFC 9728)")
            .open()
            .ours()
            .gives_content(200, "application/json", json!({"type": "object"})),
        route(SERVER, "GET", "/v1/me", "Show the caller").refuses(&[403]).gives::<Me>(200),
        route(SERVER, "GET", "/v1/quotas", "Show the limits of the workspace, and what it uses")
            .ours()
            .gives::<Quotas>(200),
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
        span(route(WATCHING, "GET", "/v1/metrics/overview", "Usage of all sandboxes of the workspace over time")),
        span(route(WATCHING, "GET", "/v1/metrics/sandbox/{id}", "Usage of one sandbox over time")),
        route(WATCHING, "GET", "/v1/stats/boot", "Statistics of start times")
            .with(query(
                "limit",
                json!({"type": "integer", "minimum": 0}),
                "Maximum number of boots to list; 50 by default.",
            ))
            .gives::<BootStats>(200),
        events(),
        list_audit(),
        export_audit(),
        route(SERVER, "GET", "/v1/host/audit", "Compare what exists on the host with what should exist")
            .ours()
            .refuses(&[404, 502, 503, 504])
            .gives::<Audit>(200),
    ]
}

fn events() -> Operation {
    route(WATCHING, "GET", "/v1/events", "List recent events of the workspace, or follow them")
        .ours()
        .notes(
            "Changes of sandboxes, templates, snapshots, volumes, webhooks, keys and members; oldest first. With \
             `follow` the response is a stream: `ready` tells the place where it begins, `event` is an event, and \
             `reset` means that events were lost. The header `Last-Event-ID` counts more than `since`.",
        )
        .with(query(
            "limit",
            json!({"type": "integer", "minimum": 0}),
            "Maximum number of events of a list; 100 by default, at most 512.",
        ))
        .with(query("since", json!({"type": "string"}), "Only events after this `cursor` or `id`."))
        .with(kinds(
            "Events of the machines of managed databases are left out unless this asks for them. Events of the \
             databases themselves, such as `database.grown`, are always shown.",
        ))
        .with(yes_or_no("follow", "Keeps the stream open and sends new events."))
        .refuses(&[400, 503])
        .gives::<WorkspaceEvents>(200)
        .gives_events(&[
            ("ready", shape::<EventPlace>),
            ("event", shape::<WorkspaceEvent>),
            ("reset", shape::<EventPlace>),
        ])
}

fn list_audit() -> Operation {
    route(WATCHING, "GET", "/v1/audit", "List the audit entries of the workspace")
        .notes("Every POST, PUT, PATCH and DELETE, also failed ones, and logins; newest first.")
        .with(query(
            "since",
            json!({"type": "string"}),
            "Omits older entries: RFC 3339 or Unix seconds; 24 hours ago by default.",
        ))
        .with(query(
            "limit",
            json!({"type": "integer", "minimum": 0}),
            "Maximum number of entries; 200 by default, at most 1000.",
        ))
        .with(ours(query("until", json!({"type": "string"}), "Omits entries from this time on.")))
        .with(ours(query("actor", json!({"type": "string"}), "`user:ID`, `key:PREFIX` or an e-mail address.")))
        .with(ours(query("method", json!({"type": "string"}), "Only requests with this method.")))
        .gives::<AuditTrail>(200)
}

fn export_audit() -> Operation {
    route(WATCHING, "GET", "/v1/audit/export", "Export all audit entries of the workspace, oldest first")
        .ours()
        .notes("One JSON object per line, with the hash chain of the entries.")
        .with(query(
            "after",
            json!({"type": "integer", "minimum": 0}),
            "Only entries with a larger number, to continue an export.",
        ))
        .gives_lines::<ExportedAuditEntry>(200)
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
