//! `pandastack org list`

use std::process::ExitCode;

use pandastack_client::wire::Org;

use crate::{
    GlobalArgs,
    advice::advise,
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
    let orgs = connect_person(global)?.orgs().await.map_err(advise)?;
    let head = &["ID", "SLUG", "NAME", "ROLE", "MEMBERS"];
    args.form.print(&orgs, TableFormat { head, row, empty: "no organisations; log in with: pandastack login" })
}

fn row(org: &Org) -> Vec<String> {
    let members = org.member_count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    vec![org.id.clone(), org.slug.clone(), org.name.clone(), org.role.clone(), members]
}
