//! Templates and apps.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::pass;
use crate::{
    api::{Api, RestRequest},
    arguments::Arguments,
    output::ToolOutput,
};

const CHANGE_MAX: Duration = Duration::from_secs(60);

pub async fn list_templates(api: &dyn Api) -> Result<ToolOutput, String> {
    pass(api, RestRequest::new("GET", &["templates"]), "other names are in the command: pandastack template list").await
}

pub async fn list_apps(api: &dyn Api) -> Result<ToolOutput, String> {
    pass(api, RestRequest::new("GET", &["apps"]), "delete apps that are not needed").await
}

pub async fn deploy_app(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let id = given.id("app_id")?;
    let mut body = Map::new();
    if let Some(reference) = given.text("git_ref")? {
        body.insert("git_ref".to_owned(), json!(reference));
    }
    let request = RestRequest::new("POST", &["apps", id, "deploys"]).json(Value::Object(body)).within(CHANGE_MAX);
    pass(api, request, "use list_apps").await
}
