//! `pandastack sandbox create`

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::Context;
use pandastack_client::wire::CreateSandbox;
use serde_json::Value;

use crate::{GlobalArgs, connect::connect, output, pair::pair, spinner::Spinner, template};

/// Arguments of `sandbox create`.
#[derive(Debug, clap::Args)]
pub struct CreateArgs {
    /// Template to start from
    #[arg(long, short, value_name = "NAME")]
    template: Option<String>,
    /// Delete it after this many idle seconds
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<u32>,
    /// Keep it however long it is idle
    #[arg(long)]
    persistent: bool,
    /// Label it; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Set an environment variable for everything in it; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Print the whole sandbox as JSON
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print only the id
    #[arg(long, short)]
    quiet: bool,
}

/// Creates a sandbox and prints it.
pub async fn create(args: CreateArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let CreateArgs { template, ttl, persistent, metadata, env, json, quiet } = args;
    let client = connect(global)?;
    let spinner = Spinner::start("creating sandbox");
    let ask = CreateSandbox {
        template: Some(template::pick(&client, template).await?),
        ttl_seconds: ttl.map(i64::from),
        persistent: persistent.then_some(true),
        metadata: map(metadata),
        env: map(env),
        ..CreateSandbox::default()
    };
    let sandbox = client.create(&ask).await.context("create a sandbox")?;
    drop(spinner);
    if json {
        output::json(&sandbox)?;
    } else if quiet {
        output::line(&sandbox.id)?;
    } else {
        output::line(&format!("{}  {}  ready in {} ms", sandbox.id, sandbox.template, sandbox.boot_ms))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn map(pairs: Vec<(String, String)>) -> Option<BTreeMap<String, Value>> {
    let map: BTreeMap<_, _> = pairs.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
    (!map.is_empty()).then_some(map)
}
