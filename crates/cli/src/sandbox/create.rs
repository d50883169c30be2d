//! `pandastack sandbox create`

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::Context;
use clap_complete::ArgValueCompleter;
use pandastack_client::{
    Client,
    wire::{CreateSandbox, Sandbox, VolumeAttachment},
};
use serde_json::Value;

use super::mount::mount;
use crate::{
    GlobalArgs,
    advice::advise,
    complete,
    connect::connect,
    find::{FoundKind, NAME_LABEL},
    output,
    pair::pair,
    spinner::Spinner,
    template,
};

/// Arguments of `sandbox create`.
#[derive(Debug, clap::Args)]
pub struct CreateSandboxArgs {
    /// Template to start from: its name, or a unique start of it
    #[arg(long, short, value_name = "NAME", add = ArgValueCompleter::new(complete::templates))]
    template: Option<String>,
    /// Snapshot to start from, instead of a template: its id, or a unique start of it
    #[arg(
        long,
        value_name = "ID",
        conflicts_with_all = ["template", "volume"],
        add = ArgValueCompleter::new(complete::snapshots)
    )]
    from_snapshot: Option<String>,
    /// Name it: other commands accept the name instead of the id. It is the label `name`
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Delete it after this many idle seconds; 0 means never
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<u32>,
    /// Put it to sleep when it is idle, instead of deleting it
    #[arg(long)]
    persistent: bool,
    /// Attach a volume, by default at /mnt/NAME; may be repeated
    #[arg(long, value_name = "NAME[:PATH][:ro]", value_parser = mount)]
    volume: Vec<VolumeAttachment>,
    /// Allow access only to this host, `*.suffix` or network; may be repeated
    #[arg(long, value_name = "HOST", conflicts_with = "no_egress")]
    egress: Vec<String>,
    /// Allow no access to the network
    #[arg(long)]
    no_egress: bool,
    /// Limit its bandwidth, in megabits per second each way
    #[arg(long, value_name = "N")]
    egress_mbps: Option<u32>,
    /// Add a label; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Set an environment variable for all its processes; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Print only the id
    #[arg(long, short, conflicts_with_all = ["json", "output"])]
    quiet: bool,
}

/// Creates a sandbox and prints it.
pub async fn create(args: CreateSandboxArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let CreateSandboxArgs { template, from_snapshot, ttl, persistent, volume, egress, no_egress, .. } = args;
    let CreateSandboxArgs { egress_mbps, mut metadata, env, quiet, name, .. } = args;
    metadata.extend(name.map(|name| (NAME_LABEL.to_owned(), name)));
    let client = connect(global)?;
    let spinner = Spinner::start("creating sandbox");
    let (from_snapshot, template) = match from_snapshot {
        Some(snapshot) => (Some(FoundKind::Snapshot.find(&client, &snapshot).await?), None),
        None => (None, Some(template::pick(&client, template).await?)),
    };
    let ask = CreateSandbox {
        template,
        from_snapshot,
        ttl_seconds: ttl.map(i64::from),
        persistent: persistent.then_some(true),
        metadata: map(metadata),
        volumes: (!volume.is_empty()).then_some(volume),
        egress_allowlist: (no_egress || !egress.is_empty()).then_some(egress),
        egress_mbps: egress_mbps.map(i64::from),
        env: map(env),
    };
    let sandbox = made(&client, &ask).await.context("create a sandbox")?;
    drop(spinner);
    if global.is_structured() {
        global.print(&sandbox)?;
    } else if quiet {
        output::line(&sandbox.id)?;
    } else {
        output::line(&format!("{}  {}  ready in {} ms", sandbox.id, sandbox.template, sandbox.boot_ms))?;
        if let Some(warning) = &sandbox.isolation_warning {
            output::warn(&format!("isolation {}: {warning}", sandbox.isolation));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Creates a sandbox. Its template may be the start of a name.
pub async fn made(client: &Client, ask: &CreateSandbox) -> anyhow::Result<Sandbox> {
    let Some(template) = &ask.template else { return client.create(ask).await.map_err(advise) };
    let create =
        async |name: &str| client.create(&CreateSandbox { template: Some(name.to_owned()), ..ask.clone() }).await;
    FoundKind::Template.call(client, template, create).await
}

/// Turns repeated options into an object. `None` if there are none.
pub(super) fn map(pairs: Vec<(String, String)>) -> Option<BTreeMap<String, Value>> {
    let map: BTreeMap<_, _> = pairs.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
    (!map.is_empty()).then_some(map)
}
