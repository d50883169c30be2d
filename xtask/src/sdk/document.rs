//! The document of the API, as far as an SDK needs it.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

/// Operations that forward whatever a client sends to a program in a sandbox, and pages for people.
const SKIPPED: [&str; 6] = ["/v1/p/", "/proxy/", "/docs", "/openapi.json", "/v1/webhooks/stripe", "/.well-known/"];

/// What an SDK is made of.
pub struct ApiDocument {
    pub models: Vec<ApiModel>,
    pub operations: Vec<ApiOperation>,
}

/// An object of the API.
pub struct ApiModel {
    pub name: String,
    pub description: String,
    pub fields: Vec<ApiField>,
}

pub struct ApiField {
    pub name: String,
    pub kind: ApiType,
    pub required: bool,
    pub description: String,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiType {
    Text,
    Choice(Vec<String>),
    Integer,
    Number,
    Flag,
    Any,
    Named(String),
    List(Box<ApiType>),
    Map(Box<ApiType>),
    Nullable(Box<ApiType>),
}

/// One way to call one route.
pub struct ApiOperation {
    /// In camel case.
    pub name: String,
    pub method: String,
    pub path: String,
    pub summary: String,
    pub description: String,
    pub in_path: Vec<ApiField>,
    pub in_query: Vec<ApiField>,
    pub body: ApiBody,
    pub answer: ApiAnswer,
}

/// What a request carries.
pub enum ApiBody {
    None,
    Json {
        kind: ApiType,
        required: bool,
    },
    Bytes,
    /// Fields of a form, with files.
    Form,
}

/// What a successful answer carries.
pub enum ApiAnswer {
    None,
    Json(ApiType),
    Text,
    Bytes,
    /// Server-sent events: the name of each with the type of its data.
    Events(Vec<(String, ApiType)>),
    WebSocket,
}

impl ApiDocument {
    pub fn read(document: &Value) -> Result<Self> {
        let schemas = document["components"]["schemas"].as_object().context("no schemas")?;
        let models = schemas.iter().map(|(name, schema)| model(name, schema)).collect::<Result<_>>()?;
        let mut operations = Vec::new();
        for (path, methods) in document["paths"].as_object().context("no paths")? {
            if SKIPPED.iter().any(|skipped| path.contains(skipped)) {
                continue;
            }
            for (method, operation) in methods.as_object().context("no methods")? {
                read_operation(path, method, operation, &mut operations).with_context(|| format!("{method} {path}"))?;
            }
        }
        Ok(Self { models, operations })
    }
}

fn model(name: &str, schema: &Value) -> Result<ApiModel> {
    let needed: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let no_fields = Map::new();
    let fields = schema["properties"].as_object().unwrap_or(&no_fields);
    let field = |(field, schema): (&String, &Value)| {
        Ok(ApiField {
            name: field.clone(),
            kind: kind(schema).with_context(|| format!("{name}.{field}"))?,
            required: needed.contains(&field.as_str()),
            description: text(&schema["description"]),
        })
    };
    Ok(ApiModel {
        name: name.to_owned(),
        description: text(&schema["description"]),
        fields: fields.iter().map(field).collect::<Result<_>>()?,
    })
}

/// Reads the type of a schema.
fn kind(schema: &Value) -> Result<ApiType> {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return Ok(ApiType::Named(name.to_owned()));
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let real: Vec<&Value> = choices.iter().filter(|choice| choice["type"] != "null").collect();
        let [only] = real[..] else { return Ok(ApiType::Any) };
        return Ok(ApiType::Nullable(Box::new(kind(only)?)));
    }
    let names: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return Ok(ApiType::Any),
    };
    let real: Vec<&str> = names.iter().copied().filter(|name| *name != "null").collect();
    let [only] = real[..] else { return Ok(ApiType::Any) };
    let plain = match only {
        "string" => match schema["enum"].as_array() {
            Some(choices) => ApiType::Choice(choices.iter().map(text).collect()),
            None => ApiType::Text,
        },
        "integer" => ApiType::Integer,
        "number" => ApiType::Number,
        "boolean" => ApiType::Flag,
        "array" => ApiType::List(Box::new(kind(&schema["items"])?)),
        "object" if schema["additionalProperties"].is_object() => {
            ApiType::Map(Box::new(kind(&schema["additionalProperties"])?))
        }
        "object" => ApiType::Map(Box::new(ApiType::Any)),
        other => bail!("a type {other:?} is new"),
    };
    Ok(if names.len() > real.len() { ApiType::Nullable(Box::new(plain)) } else { plain })
}

fn read_operation(path: &str, method: &str, operation: &Value, found: &mut Vec<ApiOperation>) -> Result<()> {
    let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
    let placed = |place: &str| {
        let here = parameters.iter().filter(|parameter| parameter["in"] == place);
        here.map(parameter).collect::<Result<Vec<_>>>()
    };
    let base = |name: String, answer: ApiAnswer| -> Result<ApiOperation> {
        Ok(ApiOperation {
            name,
            method: method.to_uppercase(),
            path: path.to_owned(),
            summary: text(&operation["summary"]),
            description: text(&operation["description"]),
            in_path: placed("path")?,
            in_query: placed("query")?,
            body: body(&operation["requestBody"])?,
            answer,
        })
    };
    let name = text(&operation["operationId"]);
    if operation["x-pandastack-websocket"] == true {
        found.push(base(name, ApiAnswer::WebSocket)?);
        return Ok(());
    }
    let answers = operation["responses"].as_object().context("no responses")?;
    let Some((_, good)) = answers.iter().find(|(status, _)| status.starts_with('2')) else {
        // A redirect of a browser.
        return Ok(());
    };
    let no_content = Map::new();
    let content = good["content"].as_object().unwrap_or(&no_content);
    if content.is_empty() {
        found.push(base(name.clone(), ApiAnswer::None)?);
    }
    // A route that can answer in two ways has two functions.
    for (media, shape) in content {
        let answer = answer(media, &shape["schema"])?;
        let is_stream = matches!(answer, ApiAnswer::Events(_)) && content.len() > 1;
        found.push(base(if is_stream { format!("{name}Stream") } else { name.clone() }, answer)?);
    }
    Ok(())
}

fn parameter(parameter: &Value) -> Result<ApiField> {
    Ok(ApiField {
        name: text(&parameter["name"]),
        kind: kind(&parameter["schema"])?,
        required: parameter["required"] == true,
        description: text(&parameter["description"]),
    })
}

fn body(body: &Value) -> Result<ApiBody> {
    let Some(content) = body["content"].as_object() else { return Ok(ApiBody::None) };
    if let Some(json) = content.get("application/json") {
        return Ok(ApiBody::Json { kind: kind(&json["schema"])?, required: body["required"] == true });
    }
    Ok(if content.contains_key("multipart/form-data") { ApiBody::Form } else { ApiBody::Bytes })
}

fn answer(media: &str, schema: &Value) -> Result<ApiAnswer> {
    Ok(match media {
        "application/json" => ApiAnswer::Json(kind(schema)?),
        "text/event-stream" => {
            let events = schema["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
            let event = |event: &Value| {
                let data = &event["properties"]["data"]["contentSchema"];
                Ok((text(&event["properties"]["event"]["const"]), kind(data)?))
            };
            ApiAnswer::Events(events.iter().map(event).collect::<Result<_>>()?)
        }
        _ if schema["format"] == "binary" => ApiAnswer::Bytes,
        _ => ApiAnswer::Text,
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
