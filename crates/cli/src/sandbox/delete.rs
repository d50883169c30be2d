//! `pandastack sandbox delete`

use std::process::ExitCode;

use crate::{GlobalArgs, connect::connect, output};

/// Arguments of `sandbox delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteArgs {
    /// Sandbox ids
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Print nothing
    #[arg(long, short)]
    quiet: bool,
}

/// Deletes each sandbox; one that fails does not stop the others.
pub async fn delete(args: DeleteArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let mut ended = ExitCode::SUCCESS;
    for id in &args.ids {
        match client.delete(id).await {
            Ok(()) if args.quiet => {}
            Ok(()) => output::line(&format!("deleted {id}"))?,
            Err(error) => {
                eprintln!("error: {id}: {error}");
                ended = ExitCode::FAILURE;
            }
        }
    }
    Ok(ended)
}
