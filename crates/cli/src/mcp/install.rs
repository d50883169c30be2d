//! `pandastack mcp install`: adds the tools to the configuration of an MCP client.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, anyhow, bail};

use super::{
    ToolArgs,
    change::ConfigChange,
    clients::{ConfigForm, KEY_VARIABLE, McpClient, McpEntry},
    json_text::set_entry,
    toml_text::set_table,
};
use crate::{
    GlobalArgs,
    connect::server,
    prompt::{ask, is_interactive},
};

#[derive(Debug, clap::Args)]
pub struct InstallArgs {
    /// The client to configure
    #[arg(long, value_enum)]
    client: McpClient,
    /// Let the client connect to the server's /mcp instead of starting this program
    #[arg(long)]
    http: bool,
    /// Write the API key into the file. By default this program uses its saved login, and a client
    /// that connects itself reads PANDASTACK_API_KEY
    #[arg(long)]
    with_key: bool,
    /// Name of the entry
    #[arg(long, default_value = "pandastack", value_parser = entry_name)]
    name: String,
    /// File to change, instead of the client's usual one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Write without asking
    #[arg(long, conflicts_with = "print")]
    yes: bool,
    /// Print the entry and change nothing
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    tools: ToolArgs,
}

/// Names that need no quotes in any file.
fn entry_name(name: &str) -> Result<String, String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match (1..=64).contains(&name.len()) && name.bytes().all(good) {
        true => Ok(name.to_owned()),
        false => Err("use letters, digits, - and _, at most 64".to_owned()),
    }
}

pub async fn install(args: InstallArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let entry = entry(&args, global)?;
    let fields = args.client.entry(&entry).map_err(|problem| anyhow!(problem))?;
    let make = |old: &str| match args.client.form() {
        ConfigForm::Json(field) => set_entry(old, field, &args.name, &fields),
        ConfigForm::Toml => set_table(old, &args.name, &fields),
    };
    if args.print {
        print!("{}", make("")?);
        return Ok(ExitCode::SUCCESS);
    }
    let path = match &args.config {
        Some(path) => path.clone(),
        None => {
            let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
            args.client.path(Path::new(&home.context("HOME is not set; name the file with --config")?))
        }
    };
    let change = ConfigChange::of(&path, make)?;
    if change.is_empty() {
        println!("{} has this entry already", change.path().display());
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", change.diff());
    if !args.yes && !confirmed().await? {
        println!("nothing was changed");
        return Ok(ExitCode::FAILURE);
    }
    let copy = change.write()?;
    println!("wrote {}; restart the client", change.path().display());
    if let Some(copy) = copy {
        println!("the old file is {}", copy.display());
    }
    if args.http && !args.with_key {
        println!("the client reads the API key from {KEY_VARIABLE}");
    }
    Ok(ExitCode::SUCCESS)
}

async fn confirmed() -> anyhow::Result<bool> {
    if !is_interactive() {
        bail!("nobody can be asked: use --yes to write, or --print to see the entry");
    }
    Ok(matches!(ask("Write this change? [y/N] ").await?.trim(), "y" | "Y" | "yes"))
}

fn entry(args: &InstallArgs, global: &GlobalArgs) -> anyhow::Result<McpEntry> {
    let config = server(global)?;
    let key = match (&config.key, args.with_key) {
        (_, false) => None,
        (Some(key), true) => Some(key.reveal().clone()),
        (None, true) => bail!("--with-key needs a key: set {KEY_VARIABLE} or log in with `pandastack login`"),
    };
    if args.http {
        if !args.tools.words().is_empty() {
            bail!("--read-only and --toolset work only without --http: the server offers all tools");
        }
        return Ok(McpEntry::Address { url: format!("{}/mcp", config.url.trim_end_matches('/')), key });
    }
    let program = std::env::current_exe().context("find this program")?;
    let command = program.to_str().context("the path of this program is not text")?.to_owned();
    let mut words = Vec::new();
    if let Some(context) = global.chosen_context() {
        words.extend(["--context".to_owned(), context.to_owned()]);
    }
    if let Some(url) = &global.api_url {
        words.extend(["--api-url".to_owned(), url.clone()]);
    }
    if let Some(org) = global.org.as_ref().filter(|org| !org.is_empty()) {
        words.extend(["--org".to_owned(), org.clone()]);
    }
    words.push("mcp".to_owned());
    words.extend(args.tools.words());
    Ok(McpEntry::Program { command, args: words, key })
}
