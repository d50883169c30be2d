//! `pandastack member list`

use std::process::ExitCode;

use pandastack_client::wire::OrgMember;

use crate::{
    GlobalArgs,
    many::{ListFormat, TableFormat},
    org::pick::ChosenOrg,
};

/// Arguments of `member list`.
#[derive(Debug, clap::Args)]
pub struct ListMembersArgs {
    #[command(flatten)]
    form: ListFormat,
}

/// Lists the members of an organisation.
pub async fn list(args: ListMembersArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let ChosenOrg { client, org } = ChosenOrg::find(None, global).await?;
    let head = &["ID", "EMAIL", "NAME", "ROLE", "JOINED"];
    let listing = TableFormat { head, row, empty: "no members" };
    args.form.print(global, listing, async || client.members(&org.id).await).await
}

fn row(member: &OrgMember) -> Vec<String> {
    let OrgMember { user_id, email, name, role, joined_at } = member;
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    vec![user_id.clone(), or_dash(email), or_dash(name), role.clone(), joined_at.clone()]
}
