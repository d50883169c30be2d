//! The types as schemas. Some types accept more than their later check does. The limits of those
//! checks are added here.

use std::collections::BTreeMap;

use schemars::{
    Schema, SchemaGenerator,
    generate::{Contract, SchemaSettings},
};
use serde_json::{Map, Value, json};

use super::EXTENSION;
use crate::limits::{
    EGRESS_MBPS_MAX, FORK_CHILDREN_MAX, PORT_LABEL_BYTES_MAX, TTL_SECONDS_MAX, VOLUME_MB_MAX, VOLUME_MB_MIN,
    VOLUMES_PER_ACCESS_MAX, WEBHOOK_DESCRIPTION_BYTES_MAX, WEBHOOK_EVENTS_MAX, WEBHOOK_GRACE_SECONDS_MAX,
};

pub(super) const HOME: &str = "#/components/schemas/";

/// Fields that extend the published API.
const OURS: &[(&str, &[&str])] = &[
    (
        "Sandbox",
        &[
            "isolation",
            "isolation_warning",
            "status_reason",
            "egress_allowlist",
            "egress_mbps",
            "volumes",
            "database_id",
        ],
    ),
    ("Template", &["databases"]),
    ("Version", &["isolation", "isolation_warning"]),
    ("CreateSandbox", &["egress_allowlist", "egress_mbps", "env"]),
    ("VolumeAttachment", &["mount_path"]),
    ("VolumeAttachmentRequest", &["mount_path"]),
    ("Volume", &["attached_to"]),
    ("Fork", &["errors"]),
    ("ExecRequest", &["argv", "cwd", "env", "user", "stdin"]),
    ("ExecResponse", &["truncated"]),
    ("CellResult", &["restarted", "truncated"]),
    ("RunOnce", &["timeout_ms"]),
    ("RanOnce", &["duration_ms", "truncated"]),
    ("Entry", &["permissions", "target"]),
    ("DirListing", &["truncated"]),
    ("Port", &["process", "loopback_only"]),
    ("ErrorBody", &["code", "request_id"]),
    ("AuditEntry", &["entry", "number", "route", "duration_ms", "actor_email", "address", "key_prefix"]),
];

/// Both kinds of schemas: responses list the fields that are always present, requests the fields
/// that are optional.
pub struct Schemas {
    answers: SchemaGenerator,
    asks: SchemaGenerator,
}

impl Schemas {
    pub fn new() -> Self {
        let settings = |contract: Contract| {
            SchemaSettings::draft2020_12()
                .with(|settings| {
                    settings.definitions_path = "/components/schemas".into();
                    settings.meta_schema = None;
                    settings.contract = contract;
                })
                .into_generator()
        };
        Self { answers: settings(Contract::Serialize), asks: settings(Contract::Deserialize) }
    }

    /// Returns the schema of a response type.
    pub fn answer(&mut self, shape: fn(&mut SchemaGenerator) -> Schema) -> Value {
        shape(&mut self.answers).to_value()
    }

    /// Returns the schema of a request type.
    pub fn ask(&mut self, shape: fn(&mut SchemaGenerator) -> Schema) -> Value {
        shape(&mut self.asks).to_value()
    }

    /// Returns every named schema. A type that is used in requests and responses has two.
    pub fn finish(mut self) -> Value {
        self.answers.subschema_for::<crate::ErrorBody>();
        let mut all: BTreeMap<String, Value> = self.answers.take_definitions(true).into_iter().collect();
        all.values_mut().for_each(never_null);
        let asks = self.asks.take_definitions(true);
        let both: Vec<String> = asks.keys().filter(|name| all.contains_key(*name)).cloned().collect();
        for (name, mut schema) in asks {
            rename(&mut schema, &both);
            let name = if both.contains(&name) { format!("{name}Request") } else { name };
            all.insert(name, schema);
        }
        all.values_mut().for_each(plain);
        // A tuple schema would say more, but the program that tests our API cannot read tuples of
        // this version.
        let part = json!({"type": ["string", "number"]});
        let pair = json!({"type": "array", "items": part, "minItems": 2, "maxItems": 2});
        let pairs = json!({"type": "array", "items": pair});
        property(&mut all, "MetricSeries", "series").insert("additionalProperties".to_owned(), pairs);
        limit(&mut all);
        for (name, fields) in OURS {
            for field in *fields {
                let schema = property(&mut all, name, field);
                schema.insert(EXTENSION.to_owned(), json!(true));
            }
        }
        json!(all)
    }
}

/// Removes null from optional fields, because a response omits them instead.
fn never_null(schema: &mut Value) {
    let required: Vec<Value> = schema["required"].as_array().cloned().unwrap_or_default();
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for (name, property) in properties {
        if required.contains(&json!(name)) {
            continue;
        }
        if let Some(choices) = property.get_mut("anyOf").and_then(Value::as_array_mut) {
            choices.retain(|choice| choice["type"] != "null");
            if let [only] = &choices[..] {
                let (only, about) = (only.clone(), property.get("description").cloned());
                *property = only;
                if let Some(about) = about {
                    property["description"] = about;
                }
            }
            continue;
        }
        if let Some(types) = property.get_mut("type").and_then(Value::as_array_mut) {
            types.retain(|kind| kind != "null");
            if let [only] = &types[..] {
                property["type"] = only.clone();
            }
        }
    }
}

/// Removes Rust's defaults for missing fields, and number formats that JSON does not have.
fn plain(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("default");
            if fields.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
                fields.remove("format");
            }
            fields.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

fn rename(value: &mut Value, both: &[String]) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get_mut("$ref")
                && both.iter().any(|name| reference.strip_prefix(HOME) == Some(name))
            {
                reference.push_str("Request");
            }
            fields.values_mut().for_each(|field| rename(field, both));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, both)),
        _ => {}
    }
}

fn property<'a>(all: &'a mut BTreeMap<String, Value>, name: &str, field: &str) -> &'a mut Map<String, Value> {
    let schema = all.get_mut(name).unwrap_or_else(|| panic!("there is no schema {name}"));
    let found = schema["properties"].get_mut(field).and_then(Value::as_object_mut);
    found.unwrap_or_else(|| panic!("{name} has no field {field}"))
}

/// Adds the limits that requests are checked for.
fn limit(all: &mut BTreeMap<String, Value>) {
    let ttl = json!({"minimum": 0, "maximum": TTL_SECONDS_MAX});
    let size = json!({"minimum": VOLUME_MB_MIN, "maximum": VOLUME_MB_MAX});
    let port = json!({"type": "integer", "minimum": 1, "maximum": 65535});
    let texts = json!({"type": ["object", "null"], "additionalProperties": {"type": "string"}});
    let count = json!({"minimum": 1, "maximum": FORK_CHILDREN_MAX});
    let volumes = json!({"maxItems": 2 * VOLUMES_PER_ACCESS_MAX});
    let path = json!({"type": "string", "pattern": "^/"});
    let positive = json!({"minimum": 0});
    let kinds = json!({"minItems": 1, "maxItems": WEBHOOK_EVENTS_MAX});
    let description = json!({"maxLength": WEBHOOK_DESCRIPTION_BYTES_MAX});
    let limits: [(&str, &str, &Value); 27] = [
        ("CreateSandbox", "ttl_seconds", &ttl),
        ("CreateSandbox", "metadata", &texts),
        ("CreateSandbox", "env", &texts),
        ("CreateSandbox", "volumes", &volumes),
        ("CreateSandbox", "egress_mbps", &json!({"minimum": 1, "maximum": EGRESS_MBPS_MAX})),
        ("SetLifecycle", "ttl_seconds", &ttl),
        ("ForkRequest", "count", &count),
        ("ForkRequest", "metadata", &texts),
        ("CreateVolume", "size_mb", &size),
        ("GrowVolume", "size_mb", &size),
        ("DeclarePort", "port", &port),
        ("DeclarePort", "label", &json!({"maxLength": PORT_LABEL_BYTES_MAX})),
        ("PreviewRequest", "port", &port),
        ("PreviewRequest", "ttl_seconds", &json!({"minimum": 1})),
        ("ExecRequest", "timeout_seconds", &positive),
        ("SpawnRequest", "timeout_seconds", &positive),
        ("RunCell", "timeout_ms", &positive),
        ("RunOnce", "timeout_ms", &positive),
        ("MakeDir", "path", &path),
        ("MovePath", "from", &path),
        ("MovePath", "to", &path),
        ("Chmod", "path", &path),
        ("Chmod", "mode", &json!({"type": "string", "pattern": "^0*[0-7]{1,4}$"})),
        ("CreateWebhook", "events", &kinds),
        ("CreateWebhook", "description", &description),
        ("SignalRequest", "signal", &json!({"type": ["string", "integer"]})),
        ("RotateSecret", "grace_seconds", &json!({"minimum": 0, "maximum": WEBHOOK_GRACE_SECONDS_MAX})),
    ];
    for (name, field, more) in limits {
        let more = more.as_object().cloned().unwrap_or_default();
        property(all, name, field).extend(more);
    }
    for (name, field) in [
        ("DeclarePort", "port"),
        ("PreviewRequest", "port"),
        ("CreateVolume", "name"),
        ("GrowVolume", "size_mb"),
        ("CreateWebhook", "url"),
        ("CreateWebhook", "events"),
        ("MakeDir", "path"),
        ("MovePath", "from"),
        ("MovePath", "to"),
        ("Chmod", "path"),
        ("Chmod", "mode"),
        ("RunCell", "code"),
        ("RunOnce", "code"),
        ("SignalRequest", "signal"),
        ("SetEgress", "egress_allowlist"),
    ] {
        let schema = all.get_mut(name).unwrap_or_else(|| panic!("there is no schema {name}"));
        match schema.get_mut("required").and_then(Value::as_array_mut) {
            Some(required) => required.push(json!(field)),
            None => schema["required"] = json!([field]),
        }
    }
}
