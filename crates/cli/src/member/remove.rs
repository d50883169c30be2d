//! `pandastack member remove`

use std::{collections::HashMap, process::ExitCode};

use crate::{
    GlobalArgs,
    advice::advise,
    many::DeleteFormat,
    org::pick::{ChosenOrg, pick_member},
};

/// Arguments of `member remove`.
#[derive(Debug, clap::Args)]
pub struct RemoveMemberArgs {
    /// E-mail addresses or ids of members
    #[arg(required = true, value_name = "USER")]
    users: Vec<String>,
    #[command(flatten)]
    form: DeleteFormat,
}

/// Removes each member. Nobody is removed if one of them is unknown.
pub async fn remove(args: RemoveMemberArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let chosen = ChosenOrg::find(None, global).await?;
    let (members, mut ids) = (chosen.members().await?, HashMap::new());
    for user in &args.users {
        ids.insert(user.clone(), pick_member(&members, user)?.user_id.clone());
    }
    let ChosenOrg { client, org } = chosen;
    let remove = async |user: &str| {
        client.remove_member(&org.id, &ids[user]).await.map_err(advise)?;
        Ok(user.to_owned())
    };
    args.form.each_as("removed", global, args.users, remove).await
}
