//! `pandastack member role`

use std::process::ExitCode;

use pandastack_client::wire::ChangeMember;
use serde_json::json;

use crate::{GlobalArgs, advice::advise, org::pick::ChosenOrg, output};

/// Arguments of `member role`.
#[derive(Debug, clap::Args)]
pub struct RoleArgs {
    /// E-mail address or id of the member
    #[arg(value_name = "USER")]
    user: String,
    /// New role
    #[arg(value_parser = ["owner", "admin", "member"])]
    role: String,
}

/// Changes the role of a member.
pub async fn role(args: RoleArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let RoleArgs { user, role } = args;
    let chosen = ChosenOrg::find(None, global).await?;
    let member = chosen.member(&user).await?;
    let ChosenOrg { client, org } = chosen;
    let ask = ChangeMember { role: role.clone() };
    client.change_member(&org.id, &member.user_id, &ask).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&json!({ "org_id": org.id, "user_id": member.user_id, "role": role }))?;
    } else {
        output::line(&format!("{user} is now {role} of {}", org.name))?;
    }
    Ok(ExitCode::SUCCESS)
}
