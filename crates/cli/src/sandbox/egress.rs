//! `pandastack sandbox egress`

use std::process::ExitCode;

use pandastack_client::wire::EgressList;

use crate::{GlobalArgs, advice::advise, output, pick::SandboxArg};

/// Arguments of `sandbox egress`.
#[derive(Debug, clap::Args)]
pub struct EgressArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Allow only this host, `*.suffix` or network; may be repeated. Replaces the list
    #[arg(long, value_name = "HOST", conflicts_with_all = ["none", "open"])]
    allow: Vec<String>,
    /// Allow nothing
    #[arg(long, conflicts_with = "open")]
    none: bool,
    /// Remove the list: allow everything that the host allows
    #[arg(long)]
    open: bool,
}

/// Shows what a sandbox may reach. Changes it first if asked.
pub async fn egress(args: EgressArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let EgressArgs { sandbox, allow, none, open } = args;
    let (client, id) = sandbox.find(global).await?;
    let change = !allow.is_empty() || none || open;
    let list = EgressList { egress_allowlist: (!open).then_some(allow) };
    let shown = if change { client.set_egress(&id, &list).await } else { client.egress(&id).await };
    let shown = shown.map_err(advise)?;
    if global.is_structured() {
        global.print(&shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    match shown.egress_allowlist {
        None => output::line("everything that the host allows")?,
        Some(rules) if rules.is_empty() => output::line("nothing")?,
        Some(rules) => output::line(&rules.join("\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}
