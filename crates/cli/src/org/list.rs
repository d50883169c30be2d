//! `pandastack org list`

use std::process::ExitCode;

use pandastack_client::wire::Org;

use crate::{
    GlobalArgs,
    connect::connect_person,
    many::{ListFormat, TableFormat},
};

/// Arguments of `org list`.
#[derive(Debug, clap::Args)]
pub struct ListOrgsArgs {
    #[command(flatten)]
    form: ListFormat,
}

/// Lists the caller's organisations.
pub async fn list(args: ListOrgsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect_person(global)?;
    let head = &["ID", "SLUG", "NAME", "ROLE", "MEMBERS"];
    let listing = TableFormat { head, row, empty: "no organisations; log in with: pandastack login" };
    args.form.print(global, listing, async || client.orgs().await).await
}

fn row(org: &Org) -> Vec<String> {
    let members = org.member_count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    vec![org.id.clone(), org.slug.clone(), org.name.clone(), org.role.clone(), members]
}
