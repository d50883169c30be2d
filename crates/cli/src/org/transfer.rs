//! `pandastack org transfer`

use std::process::ExitCode;

use serde_json::json;

use super::pick::ChosenOrg;
use crate::{GlobalArgs, advice::advise, output};

/// Arguments of `org transfer`.
#[derive(Debug, clap::Args)]
pub struct TransferOrgArgs {
    /// Id, slug or name
    #[arg(value_name = "ORG")]
    organisation: String,
    /// E-mail address or id of the member that becomes the owner
    #[arg(value_name = "USER")]
    user: String,
}

/// Makes another member the owner.
pub async fn transfer(args: TransferOrgArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let chosen = ChosenOrg::find(Some(&args.organisation), global).await?;
    let member = chosen.member(&args.user).await?;
    let ChosenOrg { client, org } = chosen;
    client.transfer_org(&org.id, &member.user_id).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&json!({ "org_id": org.id, "owner_user_id": member.user_id }))?;
    } else {
        output::line(&format!("{} now owns {} ({}); you are an admin", args.user, org.name, org.slug))?;
    }
    Ok(ExitCode::SUCCESS)
}
