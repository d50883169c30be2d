//! `pandastack sandbox lifecycle`

use std::process::ExitCode;

use pandastack_client::wire::SetLifecycle;

use crate::{GlobalArgs, advice::advise, output, pick::SandboxArg};

/// Arguments of `sandbox lifecycle`.
#[derive(Debug, clap::Args)]
pub struct LifecycleArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Idle limit in seconds; 0 means no limit
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<u32>,
    /// Whether it sleeps when idle, instead of being deleted
    #[arg(long, value_name = "true|false")]
    persistent: Option<bool>,
}

/// Shows the idle limit. Changes it first if asked.
pub async fn lifecycle(args: LifecycleArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let LifecycleArgs { sandbox, ttl, persistent } = args;
    let (client, id) = sandbox.find(global).await?;
    let change = SetLifecycle { ttl_seconds: ttl.map(i64::from), persistent };
    let shown = match (ttl, persistent) {
        (None, None) => client.lifecycle(&id).await,
        _ => client.set_lifecycle(&id, &change).await,
    };
    let shown = shown.map_err(advise)?;
    if global.is_structured() {
        global.print(&shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    let limit = match shown.ttl_seconds {
        0 => "none".to_owned(),
        seconds => format!("{seconds} s"),
    };
    let then = if shown.persistent { "sleeps" } else { "is deleted" };
    let rows = [
        vec!["idle limit".to_owned(), limit],
        vec!["idle for".to_owned(), format!("{} s", shown.idle_seconds)],
        vec!["then it".to_owned(), then.to_owned()],
    ];
    output::table(&["id", &id], &rows)?;
    Ok(ExitCode::SUCCESS)
}
