//! `pandastack member accept`

use std::process::ExitCode;

use crate::{
    GlobalArgs,
    account::{LinkSecret, invite_link},
    advice::advise,
    connect::connect_person,
    output,
};

/// Arguments of `member accept`.
#[derive(Debug, clap::Args)]
pub struct AcceptArgs {
    /// Link of the invite, or the secret in it
    #[arg(value_name = "LINK", value_parser = invite_link)]
    invite: LinkSecret,
}

/// Accepts an invite. Its organisation becomes the current one.
pub async fn accept(args: AcceptArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect_person(global)?;
    let accepted = client.accept_invite(args.invite.reveal()).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&accepted)?;
    } else {
        let org = client.get_org(&accepted.org_id).await.map_err(advise)?;
        output::line(&format!("joined {} ({}) as {}; commands now act in it", org.name, org.slug, accepted.role))?;
    }
    Ok(ExitCode::SUCCESS)
}
