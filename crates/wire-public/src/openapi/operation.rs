//! One route: its parameters, its body and all statuses that it returns.

use std::collections::{BTreeMap, BTreeSet};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::{EXTENSION, ROLE, schemas::Schemas};
use crate::KindFilter;

/// A function that creates the schema of a type.
type SchemaFn = fn(&mut SchemaGenerator) -> Schema;

/// Descriptions of the error statuses.
pub const REFUSALS: [(u16, &str); 16] = [
    (400, "The request is invalid."),
    (401, "The request has no valid credential."),
    (402, "The subscription is unpaid, or the budget of the month is used up."),
    (403, "The caller is not allowed to do this."),
    (404, "Not found, or it belongs to another workspace."),
    (409, "The current state does not allow this."),
    (410, "It was used already, or has expired."),
    (413, "The body, or a value in it, is larger than allowed."),
    (422, "The idempotency key was used for another request."),
    (426, "The request is not a WebSocket upgrade."),
    (429, "With `Retry-After`: too many requests. Without it: a limit of the workspace is reached."),
    (500, "Internal server error."),
    (502, "The host, the sandbox or a program in it did not respond, or sent an invalid response."),
    (503, "No capacity now, or a hibernated sandbox could not be woken. Nothing was created."),
    (504, "The time limit was exceeded."),
    (507, "The host does not have enough memory or disk space. Nothing was created."),
];

/// Error statuses of work in a machine, which may have to be woken first.
const MACHINE: [u16; 7] = [402, 404, 409, 502, 503, 504, 507];

/// One public route. The descriptions of all routes are the list of public endpoints.
pub struct Operation {
    pub method: &'static str,
    pub path: &'static str,
    pub tag: &'static str,
    about: &'static str,
    open: bool,
    extension: bool,
    person: bool,
    role: Option<&'static str>,
    notes: &'static str,
    parameters: Vec<Value>,
    body: Option<Value>,
    body_shape: Option<(SchemaFn, Option<Value>)>,
    body_required: bool,
    answers: Vec<(u16, Content)>,
    refusals: BTreeSet<u16>,
}

/// The content of a response.
enum Content {
    Nothing,
    Json(SchemaFn),
    /// One JSON value per line.
    Lines(SchemaFn),
    Events(&'static [(&'static str, SchemaFn)]),
    /// A content type, and its schema: text or bytes.
    Other(&'static str, Value),
}

/// Returns the schema of a type.
pub fn shape<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Starts the description of a route. `about` is its summary.
pub fn route(tag: &'static str, method: &'static str, path: &'static str, about: &'static str) -> Operation {
    let mut operation = Operation {
        method,
        path,
        tag,
        about,
        open: false,
        extension: false,
        person: false,
        role: None,
        notes: "",
        parameters: Vec::new(),
        body: None,
        body_shape: None,
        body_required: false,
        answers: Vec::new(),
        // A person may have chosen an organisation that it is not a member of.
        refusals: [401, 403, 429, 500].into(),
    };
    for name in path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
        operation.parameters.push(path_parameter(name));
        operation.refusals.insert(404);
    }
    operation
}

/// A query parameter for the document.
pub fn query(name: &str, schema: Value, text: &str) -> Value {
    json!({"name": name, "in": "query", "required": false, "schema": schema, "description": text})
}

/// A boolean query parameter.
pub fn yes_or_no(name: &str, text: &str) -> Value {
    let text = format!("{text} `1`, `true`, `yes` and `on` mean true.");
    query(name, json!({"type": "boolean"}), &text)
}

/// The query parameter with the kinds of machines that are shown.
pub fn kinds(text: &str) -> Value {
    let words = KindFilter::EVERY.map(KindFilter::as_str);
    let text = format!("{text} `sandbox` is the default.");
    query("kind", json!({"type": "string", "enum": words}), &text)
}

/// Marks a parameter as an extension.
pub fn ours(mut parameter: Value) -> Value {
    parameter[EXTENSION] = json!(true);
    parameter
}

impl Operation {
    /// The route needs no key.
    pub fn open(mut self) -> Self {
        self.open = true;
        self.refusals.remove(&401);
        self.refusals.remove(&403);
        self.refusals.remove(&429);
        self
    }

    /// The route is for persons, not for API keys.
    pub fn person(mut self) -> Self {
        self.person = true;
        self
    }

    /// The least role that a person must have in the organisation.
    pub fn least(mut self, role: &'static str) -> Self {
        self.role = Some(role);
        self.person()
    }

    /// The route is an extension of the published API.
    pub fn ours(mut self) -> Self {
        self.extension = true;
        self
    }

    /// Adds a longer description.
    pub fn notes(mut self, text: &'static str) -> Self {
        self.notes = text;
        self
    }

    pub fn with(mut self, parameter: Value) -> Self {
        self.refusals.insert(400);
        self.parameters.push(parameter);
        self
    }

    /// The route works with a machine.
    pub fn machine(mut self) -> Self {
        self.refusals.extend(MACHINE);
        self
    }

    pub fn refuses(mut self, statuses: &[u16]) -> Self {
        self.refusals.extend(statuses);
        self
    }

    /// The route creates something, once for each idempotency key.
    pub fn once(mut self) -> Self {
        let text = "A retry with the same key and body returns the first response, with `idempotent-replayed: true`.";
        let schema = json!({"type": "string", "minLength": 1, "maxLength": 255});
        let key = json!({"name": "Idempotency-Key", "in": "header", "schema": schema, "description": text});
        self.parameters.push(ours(key));
        self.refuses(&[400, 409, 413, 422])
    }

    /// The route takes a JSON object.
    pub fn takes<T: JsonSchema>(mut self, example: Value) -> Self {
        self.body_shape = Some((shape::<T>, Some(example)));
        self.body_required = true;
        self.refuses(&[400, 413])
    }

    /// The route takes an optional JSON object.
    pub fn may_take<T: JsonSchema>(mut self, example: Value) -> Self {
        self = self.takes::<T>(example);
        self.body_required = false;
        self
    }

    /// The route takes a body that is not one of our types.
    pub fn takes_content(mut self, content: Value, required: bool) -> Self {
        self.body = Some(content);
        self.body_required = required;
        self.refuses(&[400, 413])
    }

    pub fn gives<T: JsonSchema>(mut self, status: u16) -> Self {
        self.answers.push((status, Content::Json(shape::<T>)));
        self
    }

    pub fn gives_nothing(mut self, status: u16) -> Self {
        self.answers.push((status, Content::Nothing));
        self
    }

    pub fn gives_content(mut self, status: u16, content_type: &'static str, schema: Value) -> Self {
        self.answers.push((status, Content::Other(content_type, schema)));
        self
    }

    /// The route streams JSON lines of one schema.
    pub fn gives_lines<T: JsonSchema>(mut self, status: u16) -> Self {
        self.answers.push((status, Content::Lines(shape::<T>)));
        self
    }

    /// The route streams events. Each has a name and JSON data of one schema.
    pub fn gives_events(mut self, events: &'static [(&'static str, SchemaFn)]) -> Self {
        self.answers.push((200, Content::Events(events)));
        self
    }

    /// The route becomes a WebSocket.
    pub fn socket(mut self) -> Self {
        self.answers.push((101, Content::Nothing));
        self.refuses(&[400, 426])
    }

    /// Writes the operation for a method.
    pub fn write(&self, method: &str, schemas: &mut Schemas) -> Value {
        let mut written = json!({
            "operationId": operation_id(method, self.path),
            "tags": [self.tag],
            "summary": self.about,
            "responses": self.responses(schemas),
        });
        let mut set = |name: &str, value: Value| written[name] = value;
        if !self.notes.is_empty() {
            set("description", json!(self.notes));
        }
        if !self.parameters.is_empty() {
            set("parameters", json!(self.parameters));
        }
        if self.open {
            set("security", json!([]));
        }
        if self.person {
            set("security", json!([{"person": []}]));
        }
        if let Some(role) = self.role {
            set(ROLE, json!(role));
        }
        if self.extension {
            set(EXTENSION, json!(true));
        }
        if self.answers.iter().any(|(status, _)| *status == 101) {
            set("x-pandastack-websocket", json!(true));
        }
        if let Some(content) = self.content(schemas).filter(|_| !matches!(method, "GET" | "HEAD" | "OPTIONS")) {
            set("requestBody", json!({"required": self.body_required, "content": content}));
        }
        written
    }

    fn content(&self, schemas: &mut Schemas) -> Option<Value> {
        let Some((shape, example)) = &self.body_shape else { return self.body.clone() };
        let mut content = json!({"schema": schemas.ask(*shape)});
        if let Some(example) = example {
            content["example"] = example.clone();
        }
        Some(json!({"application/json": content}))
    }

    fn responses(&self, schemas: &mut Schemas) -> Value {
        let mut responses: BTreeMap<String, Value> = BTreeMap::new();
        for status in &self.refusals {
            assert!(REFUSALS.iter().any(|(known, _)| known == status), "{status} is not explained");
            responses.insert(status.to_string(), json!({"$ref": format!("#/components/responses/Refused{status}")}));
        }
        for (status, content) in &self.answers {
            let name = if *status == 0 { "default".to_owned() } else { status.to_string() };
            let mut fresh = json!({"description": meaning(*status)});
            let (kind, content) = match content {
                Content::Nothing => {
                    responses.insert(name, fresh);
                    continue;
                }
                Content::Json(shape) => ("application/json", json!({"schema": schemas.answer(*shape)})),
                Content::Other(kind, schema) => (*kind, json!({"schema": schema})),
                Content::Lines(shape) => ("application/x-ndjson", json!({"schema": schemas.answer(*shape)})),
                Content::Events(events) => ("text/event-stream", json!({"schema": event_schema(events, schemas)})),
            };
            // A status may have two content types. A generic error is replaced by the description
            // of the route.
            if let Some(before) = responses.get(&name).filter(|before| before.get("content").is_some()) {
                fresh = before.clone();
            }
            fresh["content"][kind] = content;
            responses.insert(name, fresh);
        }
        json!(responses)
    }
}

/// The schema of a stream's events: the name, and the data as text.
fn event_schema(events: &[(&str, SchemaFn)], schemas: &mut Schemas) -> Value {
    let kinds = events.iter().map(|(name, shape)| {
        let data = json!({
            "type": "string", "contentMediaType": "application/json", "contentSchema": schemas.answer(*shape),
        });
        json!({"properties": {"event": {"const": name}, "data": data}})
    });
    let kinds: Vec<Value> = kinds.collect();
    let mut schema = json!({
        "description": "One event of the stream.",
        "type": "object",
        "properties": {"event": {"type": "string"}, "data": {"type": "string"}, "id": {"type": "string"}},
        "required": ["data"],
    });
    if !kinds.is_empty() {
        schema["oneOf"] = json!(kinds);
    }
    schema
}

fn meaning(status: u16) -> &'static str {
    match status {
        0 => "The response of the program in the sandbox, or of the database.",
        101 => "The connection is now a WebSocket.",
        201 => "Created.",
        202 => "Accepted.",
        204 => "Success, no content.",
        200 => "Success.",
        status => REFUSALS.iter().find(|(known, _)| *known == status).map_or("", |(_, text)| text),
    }
}

/// Returns an id such as `postSandboxesIdExec`. Routes outside `/v1` get `Root` in their id.
fn operation_id(method: &str, path: &str) -> String {
    let mut id = method.to_lowercase();
    let inside = path.strip_prefix("/v1/");
    if inside.is_none() {
        id.push_str("Root");
    }
    for word in inside.unwrap_or(path).split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        id.push_str(&word[..1].to_uppercase());
        id.push_str(&word[1..]);
    }
    id
}

fn path_parameter(name: &str) -> Value {
    let text = |schema: Value, text: &str| (schema, text.to_owned());
    let (schema, text) = match name {
        "id" => text(json!({"type": "string", "format": "uuid"}), "Id of the sandbox."),
        "snapshot" => text(json!({"type": "string", "format": "uuid"}), "Id of the snapshot."),
        "key" => text(json!({"type": "string", "minLength": 1}), "Id or prefix of the API key."),
        "process" => text(json!({"type": "string", "pattern": "^prc_[0-9]+$"}), "Id of the process."),
        "port" => text(json!({"type": "integer", "minimum": 1, "maximum": 65535}), "Port in the sandbox."),
        "name" => text(json!({"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"}), "The name of the resource."),
        "path" => text(json!({"type": "string"}), "The rest of the path, including slashes. May be empty."),
        other => text(json!({"type": "string", "minLength": 1}), &format!("The {other}.")),
    };
    json!({"name": name, "in": "path", "required": true, "schema": schema, "description": text})
}
