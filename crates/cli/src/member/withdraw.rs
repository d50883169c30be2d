//! `pandastack member withdraw`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, many::DeleteFormat, org::pick::ChosenOrg};

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
    let withdraw = async |id: &str| {
        client.withdraw_invite(&org.id, id).await.map_err(advise)?;
        Ok(id.to_owned())
    };
    args.form.each_as("withdrew", global, args.ids, withdraw).await
}
