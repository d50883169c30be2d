//! Managed databases: made, copied, looked at and deleted. `queries` runs SQL in them.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::pass;
use crate::{
    api::{Api, RestAnswer, RestRequest},
    arguments::Arguments,
    limits::{DATABASE_MAX, LOG_LINES_DEFAULT, LOG_LINES_MAX, PROGRESS_EVERY, TEXT_BYTES_MAX},
    output::{ToolOutput, cut_middle},
};

const CHANGE_MAX: Duration = Duration::from_secs(60);

pub async fn create(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    make(api, &["databases"], (given, &["label", "size"])).await
}

pub async fn branch(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    make(api, &["databases", given.id("database_id")?, "branches"], (given, &["label"])).await
}

pub async fn copy_from_backups(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    make(api, &["databases", given.id("database_id")?, "clone"], (given, &["label", "target_time", "size"])).await
}

pub async fn backups(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    pass(api, RestRequest::new("GET", &["databases", given.id("database_id")?, "backups"]), "").await
}

/// Makes a database and waits until it can be used. The named arguments are texts of the request.
async fn make(api: &dyn Api, path: &[&str], (given, names): (&Arguments<'_>, &[&str])) -> Result<ToolOutput, String> {
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
    let mut shown = without_token(&answer, "use get_database");
    match answer.json().unwrap_or_default()["status"].as_str() {
        Some("failed" | "error") => shown.failed = true,
        Some("provisioning") => shown = shown.and("[it is not ready yet; look again with get_database]"),
        _ => {}
    }
    Ok(shown)
}

pub async fn list(api: &dyn Api) -> Result<ToolOutput, String> {
    pass(api, RestRequest::new("GET", &["databases"]), "delete databases that are not needed").await
}

/// Shows a database. Its broker token stays here: `queries` needs no copy of it.
pub async fn get(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let answer = api.call(RestRequest::new("GET", &["databases", given.id("database_id")?])).await?;
    Ok(without_token(&answer, ""))
}

fn without_token(answer: &RestAnswer, read_on: &str) -> ToolOutput {
    match answer.json() {
        Some(Value::Object(mut shown)) if !answer.is_refusal() => {
            shown.remove("broker_token");
            ToolOutput::text(Value::Object(shown).to_string())
        }
        _ => ToolOutput::of(answer, read_on),
    }
}

pub async fn logs(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let id = given.id("database_id")?;
    let lines = given.number("lines")?.unwrap_or(LOG_LINES_DEFAULT).min(LOG_LINES_MAX);
    let request = RestRequest::new("GET", &["databases", id, "logs"]).query("lines", lines.to_string());
    let answer = api.call(request.within(CHANGE_MAX)).await?;
    let shown = answer.json().unwrap_or_default();
    match shown["logs"].as_str().map(|logs| cut_middle(logs, TEXT_BYTES_MAX)) {
        Some((short, omitted)) if omitted > 0 => Ok(ToolOutput::text(json!({"logs": short}).to_string())
            .and(format!("[{omitted} bytes in the middle are not shown; ask for fewer lines]"))),
        _ => Ok(ToolOutput::of(&answer, "ask for fewer lines")),
    }
}

pub async fn delete(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    pass(api, RestRequest::new("DELETE", &["databases", given.id("database_id")?]).within(CHANGE_MAX), "").await
}
