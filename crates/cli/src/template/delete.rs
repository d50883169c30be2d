//! `pandastack template delete`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `template delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteArgs {
    /// Names of templates
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Print nothing
    #[arg(long, short)]
    quiet: bool,
}

/// Deletes each template; one that fails does not stop the others.
pub async fn delete(args: DeleteArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let mut ended = ExitCode::SUCCESS;
    for name in args.names {
        match client.delete_template(&name).await {
            Ok(()) if args.quiet => {}
            Ok(()) => output::line(&format!("deleted {name}"))?,
            Err(error) => {
                eprintln!("error: {name}: {}", advise(error));
                ended = ExitCode::FAILURE;
            }
        }
    }
    Ok(ended)
}
