//! `pandastack template builds`

use std::process::ExitCode;

use pandastack_client::wire::Build;

use crate::{
    GlobalArgs,
    advice::advise,
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
    let builds = connect(global)?.builds().await.map_err(advise)?;
    let head = &["ID", "TEMPLATE", "STATUS", "STARTED", "ERROR"];
    args.form
        .print(&builds, TableFormat { head, row, empty: "no builds; start one with: pandastack template build NAME" })
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
