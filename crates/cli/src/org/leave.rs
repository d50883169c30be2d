//! `pandastack org leave`

use std::process::ExitCode;

use serde_json::json;

use super::pick::ChosenOrg;
use crate::{GlobalArgs, advice::advise, output};

/// Arguments of `org leave`.
#[derive(Debug, clap::Args)]
pub struct LeaveOrgArgs {
    /// Id, slug or name
    #[arg(value_name = "ORG")]
    organisation: String,
}

/// Ends the caller's membership.
pub async fn leave(args: LeaveOrgArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let ChosenOrg { client, org } = ChosenOrg::find(Some(&args.organisation), global).await?;
    client.leave_org(&org.id).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&json!({ "left": org.id }))?;
    } else {
        output::line(&format!("left {} ({})", org.name, org.slug))?;
    }
    Ok(ExitCode::SUCCESS)
}
