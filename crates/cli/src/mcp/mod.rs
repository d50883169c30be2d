//! `pandastack mcp`: the tools for agents on standard input and output, and their installation in
//! clients.

mod change;
mod clients;
mod install;
mod json_text;
mod toml_text;

use std::process::ExitCode;

use anyhow::anyhow;
use pandastack_mcp::{ToolFilter, Toolset, serve_stdio};

use crate::{GlobalArgs, connect::connect};

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct McpArgs {
    #[command(flatten)]
    tools: ToolArgs,
    #[command(subcommand)]
    command: Option<McpCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum McpCommand {
    /// Add the tools to the configuration of an MCP client
    Install(install::InstallArgs),
}

/// The tools to offer.
#[derive(Clone, Debug, clap::Args)]
pub struct ToolArgs {
    /// Offer only tools that change nothing
    #[arg(long)]
    read_only: bool,
    /// Offer only these groups of tools: sandboxes, commands, files, processes, copies, platform
    #[arg(long, value_name = "GROUP,…", value_delimiter = ',', value_parser = toolset)]
    toolset: Vec<Toolset>,
}

impl ToolArgs {
    /// Returns the arguments again, for a client's configuration.
    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.read_only {
            words.push("--read-only".to_owned());
        }
        if !self.toolset.is_empty() {
            let names: Vec<_> = self.toolset.iter().map(|set| set.name()).collect();
            words.extend(["--toolset".to_owned(), names.join(",")]);
        }
        words
    }
}

fn toolset(name: &str) -> Result<Toolset, String> {
    let names = || Toolset::ALL.map(Toolset::name).join(", ");
    Toolset::ALL.into_iter().find(|set| set.name() == name).ok_or_else(|| format!("use one of: {}", names()))
}

pub async fn execute(args: McpArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    if let Some(McpCommand::Install(install)) = args.command {
        return install::install(install, global).await;
    }
    let ToolArgs { read_only, toolset: sets } = args.tools;
    serve_stdio(connect(global)?, ToolFilter { read_only, sets }).await.map_err(|error| anyhow!("{error}"))?;
    Ok(ExitCode::SUCCESS)
}
