//! `pandastack template builds`

use std::process::ExitCode;

use pandastack_client::wire::Build;

use crate::{
    GlobalArgs,
    connect::connect,
    many::{ListFormat, TableFormat},
};

/// Arguments of `template builds`.
#[derive(Debug, clap::Args)]
pub struct BuildsArgs {
    #[command(flatten)]
    form: ListFormat,
}

/// Lists builds.
pub async fn builds(args: BuildsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let head = &["ID", "TEMPLATE", "STATUS", "STARTED", "ERROR"];
    let listing = TableFormat { head, row, empty: "no builds; start one with: pandastack template build NAME" };
    args.form.print(global, listing, async || client.builds().await).await
}

fn row(build: &Build) -> Vec<String> {
    vec![
        build.id.clone(),
        build.name.clone(),
        build.status.clone(),
        build.started_at.clone(),
        build.error.clone().unwrap_or_default(),
    ]
}
