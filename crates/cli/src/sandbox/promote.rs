//! `pandastack sandbox promote`

use std::process::ExitCode;

use pandastack_client::wire::PromoteRequest;

use crate::{GlobalArgs, advice::advise, output, pick::SandboxArg, spinner::Spinner};

/// Arguments of `sandbox promote`.
#[derive(Debug, clap::Args)]
pub struct PromoteArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Do not delete the other copies of its tree
    #[arg(long)]
    keep_siblings: bool,
    /// Id of the tree that it must belong to; by default its own tree
    #[arg(long, value_name = "ID")]
    tree: Option<String>,
}

/// Keeps one copy of a tree. Fails if another copy could not be deleted.
pub async fn promote(args: PromoteArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let PromoteArgs { sandbox, keep_siblings, tree } = args;
    let (client, id) = sandbox.find(global).await?;
    let spinner = Spinner::start("promoting");
    let ask = PromoteRequest { cleanup_siblings: !keep_siblings, tree_id: tree };
    let done = client.promote(&id, &ask).await.map_err(advise)?;
    drop(spinner);
    if global.is_structured() {
        global.print(&done)?;
    } else {
        output::line(&format!("promoted {id}"))?;
        for deleted in &done.deleted {
            output::line(&format!("deleted {deleted}"))?;
        }
    }
    for (sibling, why) in &done.failures {
        eprintln!("error: {sibling} was not deleted: {why}; try: pandastack sandbox delete {sibling}");
    }
    Ok(if done.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
