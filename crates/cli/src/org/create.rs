//! `pandastack org create`

use std::process::ExitCode;

use pandastack_client::wire::CreateOrg;

use crate::{GlobalArgs, advice::advise, connect::connect_person, output};

/// Arguments of `org create`.
#[derive(Debug, clap::Args)]
pub struct CreateOrgArgs {
    /// Name of the organisation
    name: String,
    /// Slug, which also names its workspace and stays; made from the name by default
    #[arg(long, value_name = "SLUG")]
    slug: Option<String>,
}

/// Creates an organisation. The current one stays.
pub async fn create(args: CreateOrgArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let CreateOrgArgs { name, slug } = args;
    let org = connect_person(global)?.create_org(&CreateOrg { name, slug }).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&org)?;
    } else {
        output::line(&format!("{}  {}", org.id, org.slug))?;
        eprintln!("act in it with: pandastack org use {}", org.slug);
    }
    Ok(ExitCode::SUCCESS)
}
