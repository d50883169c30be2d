//! `pandastack org rename`

use std::process::ExitCode;

use super::{get::show, pick::ChosenOrg};
use crate::{GlobalArgs, advice::advise};

/// Arguments of `org rename`.
#[derive(Debug, clap::Args)]
pub struct RenameOrgArgs {
    /// Id, slug or present name
    #[arg(value_name = "ORG")]
    organisation: String,
    /// New name
    name: String,
}

/// Renames an organisation.
pub async fn rename(args: RenameOrgArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let ChosenOrg { client, org } = ChosenOrg::find(Some(&args.organisation), global).await?;
    let org = client.rename_org(&org.id, &args.name).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&org)?;
    } else {
        show(&org)?;
    }
    Ok(ExitCode::SUCCESS)
}
