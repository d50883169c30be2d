//! Forks, fork trees and snapshots.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::pass;
use crate::{
    api::{Api, RestRequest},
    arguments::Arguments,
    output::ToolOutput,
};

const COPY_MAX: Duration = Duration::from_secs(180);

pub async fn fork(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    copy(api, given, "fork", &["count", "metadata"]).await
}

pub async fn fork_tree(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    copy(api, given, "fork-tree", &["count", "metadata"]).await
}

pub async fn snapshot(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    copy(api, given, "snapshots", &[]).await
}

pub async fn promote(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let (id, tree) = (given.id("sandbox_id")?, given.id("tree_id")?);
    let cleanup = given.flag("cleanup_siblings")?.unwrap_or(true);
    let body = json!({"tree_id": tree, "cleanup_siblings": cleanup});
    let request = RestRequest::new("POST", &["sandboxes", id, "promote"]).json(body).within(COPY_MAX);
    pass(api, request, "use list_sandboxes").await
}

async fn copy(api: &dyn Api, given: &Arguments<'_>, verb: &str, names: &[&str]) -> Result<ToolOutput, String> {
    let id = given.id("sandbox_id")?;
    let mut body = Map::new();
    given.copy(names, &mut body);
    let request = RestRequest::new("POST", &["sandboxes", id, verb]).json(Value::Object(body)).within(COPY_MAX);
    pass(api, request, "use list_sandboxes").await
}
