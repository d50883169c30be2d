//! `pandastack sandbox fork`

use std::process::ExitCode;

use pandastack_client::{
    Client,
    wire::{ForkFailure, ForkRequest, Sandbox},
};

use super::create::map;
use crate::{GlobalArgs, advice::advise, output, pair::pair, pick::SandboxArg, spinner::Spinner};

/// Arguments of `sandbox fork`.
#[derive(Debug, clap::Args)]
pub struct ForkArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Number of copies. Two or more form a tree, of which one can be promoted
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1)]
    count: i64,
    /// Add a label to the copies; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Print only the ids
    #[arg(long, short, conflicts_with_all = ["json", "output"])]
    quiet: bool,
}

/// Makes running copies. If one of them fails, it prints the others and fails.
pub async fn fork(args: ForkArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let ForkArgs { sandbox, count, metadata, quiet } = args;
    let (client, id) = sandbox.find(global).await?;
    let ask = ForkRequest { count: (count != 1).then_some(count), metadata: map(metadata) };
    let made = make(&client, &id, &ask).await?;
    if global.is_structured() {
        global.print(&made.answer)?;
    } else {
        for child in &made.children {
            let line = format!("{}  {}  ready in {} ms", child.id, child.template, child.boot_ms);
            output::line(if quiet { &child.id } else { &line })?;
        }
        if made.tree
            && !quiet
            && let Some(child) = made.children.first()
        {
            eprintln!("keep one and delete the others with: pandastack sandbox promote {}", child.id);
        }
    }
    for failure in &made.errors {
        eprintln!("error: copy {} failed: {}", failure.index, failure.err);
    }
    Ok(if made.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct ForkResultJson {
    answer: serde_json::Value,
    children: Vec<Sandbox>,
    errors: Vec<ForkFailure>,
    tree: bool,
}

async fn make(client: &Client, id: &str, ask: &ForkRequest) -> anyhow::Result<ForkResultJson> {
    let _spinner = Spinner::start("forking");
    Ok(match ask.count {
        None => {
            let fork = client.fork(id, ask).await.map_err(advise)?;
            ForkResultJson {
                answer: serde_json::to_value(&fork)?,
                children: fork.children,
                errors: fork.errors,
                tree: false,
            }
        }
        Some(_) => {
            let tree = client.fork_tree(id, ask).await.map_err(advise)?;
            ForkResultJson {
                answer: serde_json::to_value(&tree)?,
                children: tree.children,
                errors: tree.errors,
                tree: true,
            }
        }
    })
}
