//! `pandastack webhook delete`

use std::process::ExitCode;

use serde_json::json;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `webhook delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteArgs {
    /// Webhook ids
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Print what was deleted as JSON
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print nothing
    #[arg(long, short)]
    quiet: bool,
}

/// Deletes each webhook; one that fails does not stop the others.
pub async fn delete(args: DeleteArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let (mut deleted, mut ended) = (Vec::new(), ExitCode::SUCCESS);
    for id in args.ids {
        match client.delete_webhook(&id).await {
            Ok(()) => {
                if !args.json && !args.quiet {
                    output::line(&format!("deleted {id}"))?;
                }
                deleted.push(id);
            }
            Err(error) => {
                eprintln!("error: {id}: {}", advise(error));
                ended = ExitCode::FAILURE;
            }
        }
    }
    if args.json {
        output::json(&json!({ "deleted": deleted }))?;
    }
    Ok(ended)
}
