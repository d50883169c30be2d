//! `pandastack volume delete`

use std::process::ExitCode;

use serde_json::json;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `volume delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteArgs {
    /// Volume names
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Print what was deleted as JSON
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print nothing
    #[arg(long, short)]
    quiet: bool,
}

/// Deletes each volume with its data; one that fails does not stop the others.
pub async fn delete(args: DeleteArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let (mut deleted, mut ended) = (Vec::new(), ExitCode::SUCCESS);
    for name in args.names {
        match client.delete_volume(&name).await {
            Ok(()) => {
                if !args.json && !args.quiet {
                    output::line(&format!("deleted {name}"))?;
                }
                deleted.push(name);
            }
            Err(error) => {
                eprintln!("error: {name}: {}", advise(error));
                ended = ExitCode::FAILURE;
            }
        }
    }
    if args.json {
        output::json(&json!({ "deleted": deleted }))?;
    }
    Ok(ended)
}
