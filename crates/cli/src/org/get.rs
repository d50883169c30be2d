//! `pandastack org get`

use std::process::ExitCode;

use pandastack_client::wire::Org;

use super::pick::ChosenOrg;
use crate::{GlobalArgs, advice::advise, output};

/// Arguments of `org get`.
#[derive(Debug, clap::Args)]
pub struct GetOrgArgs {
    /// Id, slug or name; by default the current organisation
    #[arg(value_name = "ORG")]
    organisation: Option<String>,
}

/// Shows one organisation.
pub async fn get(args: GetOrgArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let ChosenOrg { client, org } = ChosenOrg::find(args.organisation.as_deref(), global).await?;
    let org = client.get_org(&org.id).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&org)?;
    } else {
        show(&org)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints all fields of an organisation.
pub fn show(org: &Org) -> anyhow::Result<()> {
    let Org { id, slug, name, owner_user_id, role, created_at, member_count } = org;
    let rows = [
        ("name", Some(name.clone())),
        ("slug", Some(slug.clone())),
        ("your role", Some(role.clone())),
        ("owner", Some(owner_user_id.clone())),
        ("members", member_count.map(|count| count.to_string())),
        ("created", Some(created_at.clone())),
    ];
    let row = |(name, value): (&str, Option<String>)| value.map(|value| vec![name.to_owned(), value]);
    output::table(&["id", id], &rows.into_iter().filter_map(row).collect::<Vec<_>>())
}
