//! The tools: `list` describes them as models read them, and the other files run them. Each tool is
//! a short program over the API.

mod code;
mod commands;
mod copies;
mod databases;
mod files;
mod list;
mod platform;
mod processes;
mod queries;
mod sandboxes;
#[cfg(test)]
mod tests;

pub use files::read_request;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use crate::{
    api::{Api, RestRequest},
    arguments::Arguments,
    output::ToolOutput,
};

/// One tool as agents see it.
#[derive(Clone, Debug)]
pub struct ToolSpec {
    pub name: &'static str,
    pub title: &'static str,
    /// Written for a model.
    pub description: &'static str,
    pub set: Toolset,
    pub effect: ToolEffect,
    /// JSON schemas of the arguments, by name.
    pub properties: Value,
    pub required: &'static [&'static str],
}

/// What a tool may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolEffect {
    /// Changes nothing.
    Reads,
    /// Adds something; a repeated call adds more.
    Adds,
    /// Sets something; a repeated call changes nothing more.
    Sets,
    /// Runs the agent's own program, which may do anything.
    Runs,
    /// Removes something.
    Removes,
}

/// A group of tools that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toolset {
    Sandboxes,
    Commands,
    Files,
    Processes,
    Copies,
    Platform,
}

impl Toolset {
    pub const ALL: [Self; 6] =
        [Self::Sandboxes, Self::Commands, Self::Files, Self::Processes, Self::Copies, Self::Platform];

    /// Returns the name of the group.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sandboxes => "sandboxes",
            Self::Commands => "commands",
            Self::Files => "files",
            Self::Processes => "processes",
            Self::Copies => "copies",
            Self::Platform => "platform",
        }
    }
}

/// The tools that a server offers. By default all.
#[derive(Clone, Debug, Default)]
pub struct ToolFilter {
    /// Only tools that change nothing.
    pub read_only: bool,
    /// Only these groups; all if empty.
    pub sets: Vec<Toolset>,
}

impl ToolFilter {
    /// Tells whether a tool is offered.
    pub fn allows(&self, tool: &ToolSpec) -> bool {
        (!self.read_only || tool.effect == ToolEffect::Reads) && (self.sets.is_empty() || self.sets.contains(&tool.set))
    }
}

impl ToolSpec {
    /// Returns the JSON schema of the arguments.
    pub fn schema(&self) -> Map<String, Value> {
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), self.properties.clone());
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), json!(self.required));
        }
        schema
    }
}

/// Returns every tool.
pub fn catalogue() -> &'static [ToolSpec] {
    static ALL: OnceLock<Vec<ToolSpec>> = OnceLock::new();
    ALL.get_or_init(list::all)
}

/// Runs a tool. Every problem is an answer that the agent can read.
pub async fn run(api: &dyn Api, name: &str, arguments: &Map<String, Value>) -> ToolOutput {
    dispatch(api, name, &Arguments(arguments)).await.unwrap_or_else(ToolOutput::failure)
}

async fn dispatch(api: &dyn Api, name: &str, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    match name {
        "create_sandbox" => sandboxes::create(api, given).await,
        "list_sandboxes" => sandboxes::list(api, given).await,
        "get_sandbox" => sandboxes::get(api, given).await,
        "delete_sandbox" => sandboxes::delete(api, given).await,
        "hibernate_sandbox" => sandboxes::hibernate(api, given).await,
        "wake_sandbox" => sandboxes::wake(api, given).await,
        "preview_url" => sandboxes::preview(api, given).await,
        "run_command" => commands::run(api, given).await,
        "run_code" => code::run(api, given).await,
        "create_code_context" => code::create_context(api, given).await,
        "read_file" => files::read(api, given).await,
        "write_file" => files::write(api, given).await,
        "list_dir" => files::list(api, given).await,
        "start_process" => processes::start(api, given).await,
        "list_processes" => processes::list(api, given).await,
        "read_process_output" => processes::output(api, given).await,
        "stop_process" => processes::stop(api, given).await,
        "fork_sandbox" => copies::fork(api, given).await,
        "fork_tree" => copies::fork_tree(api, given).await,
        "promote_sandbox" => copies::promote(api, given).await,
        "snapshot_sandbox" => copies::snapshot(api, given).await,
        "create_database" => databases::create(api, given).await,
        "branch_database" => databases::branch(api, given).await,
        "clone_database" => databases::copy_from_backups(api, given).await,
        "database_backups" => databases::backups(api, given).await,
        "list_databases" => databases::list(api).await,
        "get_database" => databases::get(api, given).await,
        "query_database" => queries::query(api, given).await,
        "database_logs" => databases::logs(api, given).await,
        "delete_database" => databases::delete(api, given).await,
        "list_apps" => platform::list_apps(api).await,
        "deploy_app" => platform::deploy_app(api, given).await,
        "list_templates" => platform::list_templates(api).await,
        other => Err(unknown(other)),
    }
}

/// Explains that there is no such tool.
pub fn unknown(name: &str) -> String {
    let shown: String = name.chars().take(80).collect();
    format!("unknown tool {shown:?}; tools/list names the tools of this server")
}

/// Sends a request and shows the answer.
async fn pass(api: &dyn Api, request: RestRequest, read_on: &str) -> Result<ToolOutput, String> {
    Ok(ToolOutput::of(&api.call(request).await?, read_on))
}
