//! `pandastack sandbox preview`

use std::process::ExitCode;

use pandastack_client::wire::PreviewRequest;

use crate::{GlobalArgs, advice::advise, pick::SandboxArg, printed::PrintedUrl};

/// Arguments of `sandbox preview`.
#[derive(Debug, clap::Args)]
pub struct PreviewArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Port that a program in the sandbox listens on
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Allow only these paths and those below, separated by commas; may be repeated
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    paths: Vec<String>,
    /// How long the link works, in seconds; one hour by default, one week at most
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<i64>,
}

/// Creates a signed preview and prints its URL.
pub async fn preview(args: PreviewArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let PreviewArgs { sandbox, port, paths, ttl } = args;
    let paths = (!paths.is_empty()).then_some(paths);
    let ask = PreviewRequest { port: Some(port.into()), ttl_seconds: ttl, paths };
    let (client, id) = sandbox.find(global).await?;
    let signed = client.preview(&id, &ask).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&signed)?
    } else {
        PrintedUrl::of_preview(&client, &signed.url).await.print()?
    }
    Ok(ExitCode::SUCCESS)
}
