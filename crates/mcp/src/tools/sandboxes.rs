//! Makes, lists and removes sandboxes, and puts them to sleep.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::pass;
use crate::{
    api::{Api, RestRequest},
    arguments::Arguments,
    output::ToolOutput,
};

const TEMPLATE_DEFAULT: &str = "code-interpreter";
const CREATE_MAX: Duration = Duration::from_secs(90);
const CHANGE_MAX: Duration = Duration::from_secs(60);
const FOR_MORE: &str = "use limit, and after with the id of the last entry";

pub async fn create(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let mut body = Map::new();
    let from = given.some_id("from_snapshot")?;
    given.copy(&["ttl_seconds", "metadata", "env", "persistent", "from_snapshot", "egress_allowlist"], &mut body);
    match given.text("template")?.filter(|name| !name.is_empty()) {
        Some(template) => body.insert("template".to_owned(), json!(template)),
        // A snapshot has its own template.
        None if from.is_none() => body.insert("template".to_owned(), json!(TEMPLATE_DEFAULT)),
        None => None,
    };
    let request = RestRequest::new("POST", &["sandboxes"]).json(Value::Object(body)).within(CREATE_MAX);
    pass(api, request, "use get_sandbox").await
}

pub async fn list(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let mut request = RestRequest::new("GET", &["sandboxes"]);
    if let Some(limit) = given.number("limit")? {
        request = request.query("limit", limit.to_string());
    }
    if let Some(after) = given.some_id("after")? {
        request = request.query("after", after);
    }
    pass(api, request, FOR_MORE).await
}

pub async fn get(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    pass(api, RestRequest::new("GET", &["sandboxes", given.id("sandbox_id")?]), "use list_sandboxes").await
}

pub async fn delete(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let request = RestRequest::new("DELETE", &["sandboxes", given.id("sandbox_id")?]).within(CHANGE_MAX);
    pass(api, request, "").await
}

pub async fn hibernate(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    change(api, given, "hibernate").await
}

pub async fn wake(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    change(api, given, "wake").await
}

async fn change(api: &dyn Api, given: &Arguments<'_>, verb: &str) -> Result<ToolOutput, String> {
    let request = RestRequest::new("POST", &["sandboxes", given.id("sandbox_id")?, verb]).within(CREATE_MAX);
    pass(api, request, "use get_sandbox").await
}

pub async fn preview(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let id = given.id("sandbox_id")?;
    let port = given.number("port")?.ok_or("port is required")?;
    let mut body = Map::from_iter([("port".to_owned(), json!(port))]);
    given.copy(&["ttl_seconds"], &mut body);
    pass(api, RestRequest::new("POST", &["sandboxes", id, "preview"]).json(Value::Object(body)), "").await
}
