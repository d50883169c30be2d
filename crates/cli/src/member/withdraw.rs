//! `pandastack member withdraw`

use std::process::ExitCode;

use crate::{GlobalArgs, many::DeleteFormat, org::pick::ChosenOrg};

/// Arguments of `member withdraw`.
#[derive(Debug, clap::Args)]
pub struct WithdrawArgs {
    /// Ids of invites, as "pandastack member invites" shows them
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    form: DeleteFormat,
}

/// Withdraws each invite. A failure does not stop the others.
pub async fn withdraw(args: WithdrawArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let ChosenOrg { client, org } = ChosenOrg::find(None, global).await?;
    args.form.each_as("withdrew", args.ids, async |id| client.withdraw_invite(&org.id, id).await).await
}
