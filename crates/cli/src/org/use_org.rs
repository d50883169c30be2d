//! `pandastack org use`

use std::process::ExitCode;

use super::pick::ChosenOrg;
use crate::{GlobalArgs, advice::advise, output};

/// Arguments of `org use`.
#[derive(Debug, clap::Args)]
pub struct UseOrgArgs {
    /// Id, slug or name
    #[arg(value_name = "ORG")]
    organisation: String,
}

/// Chooses the current organisation.
pub async fn use_org(args: UseOrgArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let ChosenOrg { client, org } = ChosenOrg::find(Some(&args.organisation), global).await?;
    client.use_org(&org.id).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&org)?;
    } else {
        output::line(&format!("commands now act in {} ({}) as {}", org.name, org.slug, org.role))?;
    }
    if global.org.as_ref().is_some_and(|chosen| !chosen.is_empty() && *chosen != org.id) {
        output::warn("PANDASTACK_ORG or --org is used instead of this choice");
    }
    Ok(ExitCode::SUCCESS)
}
