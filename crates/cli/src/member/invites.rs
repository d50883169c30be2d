//! `pandastack member invites`

use std::process::ExitCode;

use pandastack_client::wire::OrgInvite;

use crate::{
    GlobalArgs,
    many::{ListFormat, TableFormat},
    org::pick::ChosenOrg,
};

/// Arguments of `member invites`.
#[derive(Debug, clap::Args)]
pub struct ListInvitesArgs {
    #[command(flatten)]
    form: ListFormat,
}

/// Lists open invites.
pub async fn invites(args: ListInvitesArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let ChosenOrg { client, org } = ChosenOrg::find(None, global).await?;
    let head = &["ID", "EMAIL", "ROLE", "BY", "EXPIRES"];
    let empty = "no open invites; invite somebody with: pandastack member invite EMAIL";
    let listing = TableFormat { head, row, empty };
    args.form.print(global, listing, async || client.invites(&org.id).await).await
}

fn row(invite: &OrgInvite) -> Vec<String> {
    let OrgInvite { id, email, role, invited_by, expires_at, .. } = invite;
    [id, email, role, invited_by, expires_at].map(Clone::clone).to_vec()
}
