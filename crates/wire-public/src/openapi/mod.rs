//! The public API as an OpenAPI 3.1 document, generated from the types of this room and the
//! descriptions of the routes. `operation` describes one route, `schemas` the types, and the other
//! files list the routes by subject: they are the one list of public endpoints. Only
//! `cargo xtask openapi` and its tests run this code; the server serves the committed file.

mod access;
mod billing;
mod copies;
mod databases;
mod durable;
mod files;
mod guest;
mod operation;
mod sandboxes;
mod schemas;
mod server;
mod team;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use operation::{Operation, REFUSALS};
use schemas::Schemas;

/// Marks our extensions of the published API: routes, parameters and fields.
pub const EXTENSION: &str = "x-pandastack-extension";

/// Names the least role that a person must have in the organisation of the path.
pub const ROLE: &str = "x-pandastack-least-role";

/// The methods of a route that forwards every request.
const EVERY_METHOD: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

const ABOUT: &str = "API for sandboxes: Linux machines, each with its own kernel. `x-pandastack-extension: true` \
                     marks extensions of the API that the published clients use. Unknown fields in requests are \
                     ignored. Every error is an object with a text in `error` and a stable `code`. Every response has \
                     the header `x-request-id`.";

const TAGS: [(&str, &str); 17] = [
    ("Sandboxes", "Create, inspect, hibernate and delete sandboxes."),
    ("Copies", "Forks, fork trees and snapshots."),
    ("Commands", "Run commands: in one request, as a stream, or over a WebSocket."),
    ("Processes", "Processes that outlive the request that started them."),
    ("Code", "Code sessions that keep their state, and tools for agents (MCP)."),
    ("Files", "Files and directories in a sandbox."),
    ("Ports", "Ports of programs in a sandbox, and access to them."),
    ("Templates", "Templates for sandboxes, and template builds."),
    ("Volumes", "Disks that outlive sandboxes."),
    ("Databases", "Managed PostgreSQL: create, branch, query, wake and delete databases."),
    ("Webhooks", "Notifications about events."),
    ("Watching", "Logs, events, metrics and the audit trail."),
    ("API keys", "Create, list and revoke API keys."),
    ("Logins", "Log in, and manage sessions and passwords."),
    ("Organisations", "Organisations, their members and invites."),
    ("Billing", "Prices, usage, bills, budgets and subscriptions."),
    ("Server", "Health, version and the identity of the caller."),
];

/// Generates the document.
///
/// # Panics
/// If a route is described twice, or its tag or an error status is not explained.
pub fn document() -> Value {
    let mut schemas = Schemas::new();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for operation in operations() {
        write(&operation, &mut schemas, &mut paths);
    }
    let schemas = on_one_line(schemas.finish());
    paths.values_mut().flat_map(Map::values_mut).for_each(|operation| name_request(operation, &schemas));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "PandaStack",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}, {"queryKey": []}],
        "tags": TAGS.map(|(name, text)| json!({"name": name, "description": text})),
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {
                    "type": "http", "scheme": "bearer",
                    "description": "An API key such as `pds_…`, the token of a login, or a token of an identity \
                                    provider.",
                },
                "person": {
                    "type": "http", "scheme": "bearer",
                    "description": "The token of a login, or a token of an identity provider. Not an API key.",
                },
                "queryKey": {
                    "type": "apiKey", "in": "query", "name": "access_token",
                    "description": "The same key, for clients that cannot send headers.",
                },
            },
            "responses": refusals(),
            "schemas": schemas,
        },
    })
}

/// Makes the body of an operation refer to the request form of its type, if it has one.
fn name_request(operation: &mut Value, schemas: &Value) {
    let Some(content) = operation.pointer_mut("/requestBody/content").and_then(Value::as_object_mut) else { return };
    for media in content.values_mut() {
        if let Some(Value::String(reference)) = media.pointer_mut("/schema/$ref")
            && let Some(name) = reference.strip_prefix(schemas::HOME)
            && schemas.get(format!("{name}Request")).is_some()
        {
            reference.push_str("Request");
        }
    }
}

/// Joins the lines of descriptions, because line breaks of source comments have no meaning.
fn on_one_line(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let one = |(name, field): (String, Value)| match field {
                Value::String(text) if name == "description" => {
                    let paragraphs: Vec<_> = text.split("\n\n").map(|part| part.replace('\n', " ")).collect();
                    (name, Value::String(paragraphs.join("\n\n")))
                }
                field => (name, on_one_line(field)),
            };
            Value::Object(fields.into_iter().map(one).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(on_one_line).collect()),
        other => other,
    }
}

/// Writes a document with one line for each route and each schema, so that diffs are readable.
pub fn written(document: &Value) -> String {
    fn lines(value: &Value, levels: usize, indent: usize, out: &mut String) {
        let Some(fields) = value.as_object().filter(|fields| levels > 0 && !fields.is_empty()) else {
            out.push_str(&value.to_string());
            return;
        };
        out.push_str("{\n");
        for (at, (name, field)) in fields.iter().enumerate() {
            let levels = if matches!(name.as_str(), "info" | "security") { 0 } else { levels - 1 };
            out.push_str(&format!("{:indent$}{}: ", "", json!(name)));
            lines(field, levels, indent + 1, out);
            out.push_str(if at + 1 < fields.len() { ",\n" } else { "\n" });
        }
        out.push_str(&format!("{:width$}}}", "", width = indent - 1));
    }
    let mut out = String::new();
    lines(document, 3, 1, &mut out);
    out.push('\n');
    out
}

fn operations() -> Vec<Operation> {
    let mut all = server::operations();
    all.extend(team::operations());
    all.extend(billing::operations());
    all.extend(sandboxes::operations());
    all.extend(copies::operations());
    all.extend(durable::operations());
    all.extend(databases::operations());
    all.extend(guest::operations());
    all.extend(files::operations());
    all.extend(access::operations());
    all
}

fn write(operation: &Operation, schemas: &mut Schemas, paths: &mut BTreeMap<&str, Map<String, Value>>) {
    let Operation { method, path, tag, .. } = *operation;
    assert!(TAGS.iter().any(|(name, _)| *name == tag), "{path} has no such tag");
    let methods = if method == "ANY" { &EVERY_METHOD[..] } else { &[method] };
    for method in methods {
        let written = operation.write(method, schemas);
        let before = paths.entry(path).or_default().insert(method.to_lowercase(), written);
        assert!(before.is_none(), "{method} {path} is described twice");
    }
}

fn refusals() -> Value {
    let all = REFUSALS.iter().map(|(status, text)| {
        let schema = json!({"$ref": "#/components/schemas/ErrorBody"});
        let mut refusal = json!({"description": text, "content": {"application/json": {"schema": schema}}});
        if matches!(status, 429 | 503) {
            let text = "Seconds until a retry may succeed. Absent if a retry cannot succeed.";
            refusal["headers"] = json!({"Retry-After": {"description": text, "schema": {"type": "integer"}}});
        }
        (format!("Refused{status}"), refusal)
    });
    Value::Object(all.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere_and_every_operation_has_an_id_of_its_own() {
        let document = document();
        let mut references = Vec::new();
        gather(&document, &mut references);
        assert!(references.len() > 100);
        for reference in references {
            let found = document.pointer(reference.strip_prefix('#').unwrap());
            assert!(found.is_some(), "{reference} leads nowhere");
        }
        let mut ids = Vec::new();
        for operation in document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap()) {
            ids.push(operation.1["operationId"].as_str().unwrap().to_owned());
        }
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }

    #[test]
    fn what_is_written_is_the_document() {
        let document = document();
        assert_eq!(serde_json::from_str::<Value>(&written(&document)).unwrap(), document);
    }

    #[test]
    fn answers_say_what_is_always_there_and_requests_what_is_needed() {
        let schemas = &document()["components"]["schemas"];
        let required = |name: &str| schemas[name]["required"].as_array().cloned().unwrap_or_default();
        assert!(required("Sandbox").contains(&json!("isolation")));
        assert!(!required("Sandbox").contains(&json!("from_snapshot")));
        assert_eq!(schemas["Sandbox"]["properties"]["from_snapshot"]["type"], "string");
        assert_eq!(schemas["Sandbox"]["properties"]["isolation"][EXTENSION], true);
        assert!(required("CreateSandbox").is_empty());
        assert_eq!(required("DeclarePort"), [json!("port")]);
    }

    fn gather(value: &Value, references: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                references.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|field| gather(field, references));
            }
            Value::Array(items) => items.iter().for_each(|item| gather(item, references)),
            _ => {}
        }
    }
}
