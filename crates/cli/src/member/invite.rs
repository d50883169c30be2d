//! `pandastack member invite`

use std::process::ExitCode;

use pandastack_client::wire::CreateInvite;

use crate::{GlobalArgs, advice::advise, org::pick::ChosenOrg, output};

/// Arguments of `member invite`.
#[derive(Debug, clap::Args)]
pub struct InviteArgs {
    /// E-mail address
    email: String,
    /// Role: member uses what the organisation owns, admin also invites and removes members
    #[arg(long, default_value = "member", value_parser = ["member", "admin"])]
    role: String,
}

/// Invites somebody. Standard output gets only the link, so that scripts can read it.
pub async fn invite(args: InviteArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let InviteArgs { email, role } = args;
    let ChosenOrg { client, org } = ChosenOrg::find(None, global).await?;
    let invite = client.invite_member(&org.id, &CreateInvite { email, role: Some(role) }).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&invite)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::line(invite.invite_url.as_deref().or(invite.token.as_deref()).unwrap_or_default())?;
    eprintln!(
        "send the link to {}; it is shown only once and works until {}\nwithdraw it with: pandastack member withdraw \
            {}",
        invite.email, invite.expires_at, invite.id
    );
    Ok(ExitCode::SUCCESS)
}
