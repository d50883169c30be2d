//! Templates, databases and apps.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::pass;
use crate::{
    api::{Api, RestRequest},
    arguments::Arguments,
    limits::{DATABASE_MAX, PROGRESS_EVERY},
    output::ToolOutput,
};

const CHANGE_MAX: Duration = Duration::from_secs(60);

pub async fn list_templates(api: &dyn Api) -> Result<ToolOutput, String> {
    pass(api, RestRequest::new("GET", &["templates"]), "other names are in the command: pandastack template list").await
}

pub async fn create_database(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    make_database(api, &["databases"], (given, &["label", "size"])).await
}

pub async fn branch_database(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    make_database(api, &["databases", given.id("database_id")?, "branches"], (given, &["label"])).await
}

pub async fn clone_database(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    make_database(api, &["databases", given.id("database_id")?, "clone"], (given, &["label", "target_time", "size"]))
        .await
}

pub async fn database_backups(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    pass(api, RestRequest::new("GET", &["databases", given.id("database_id")?, "backups"]), "").await
}

/// Makes a database and waits until it can be used. The named arguments are texts of the request.
async fn make_database(
    api: &dyn Api,
    path: &[&str],
    (given, names): (&Arguments<'_>, &[&str]),
) -> Result<ToolOutput, String> {
    let until = Instant::now() + DATABASE_MAX;
    let mut body = Map::new();
    for name in names {
        if let Some(text) = given.text(name)? {
            body.insert((*name).to_owned(), json!(text));
        }
    }
    let request = RestRequest::new("POST", path).json(Value::Object(body)).within(DATABASE_MAX);
    let mut answer = api.call(request).await?;
    while !answer.is_refusal() && Instant::now() < until {
        let shown = answer.json().unwrap_or_default();
        let (Some("provisioning"), Some(id)) = (shown["status"].as_str(), shown["id"].as_str()) else { break };
        tokio::time::sleep(PROGRESS_EVERY).await;
        answer = api.call(RestRequest::new("GET", &["databases", id])).await?;
    }
    let mut shown = ToolOutput::of(&answer, "use list_databases");
    match answer.json().unwrap_or_default()["status"].as_str() {
        Some("failed" | "error") => shown.failed = true,
        Some("provisioning") => shown = shown.and("[it is not ready yet; look again with list_databases]"),
        _ => {}
    }
    Ok(shown)
}

pub async fn list_databases(api: &dyn Api) -> Result<ToolOutput, String> {
    pass(api, RestRequest::new("GET", &["databases"]), "delete databases that are not needed").await
}

pub async fn delete_database(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    pass(api, RestRequest::new("DELETE", &["databases", given.id("database_id")?]).within(CHANGE_MAX), "").await
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
