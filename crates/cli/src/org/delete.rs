//! `pandastack org delete`

use std::process::ExitCode;

use anyhow::bail;
use pandastack_client::wire::Org;
use serde_json::json;

use super::pick::ChosenOrg;
use crate::{GlobalArgs, advice::advise, output, prompt};

/// Arguments of `org delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteOrgArgs {
    /// Id, slug or name
    #[arg(value_name = "ORG")]
    organisation: String,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// Deletes an organisation with everything that it owns, after the person has typed its slug.
pub async fn delete(args: DeleteOrgArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    prompt::until_stopped(async {
        let ChosenOrg { client, org } = ChosenOrg::find(Some(&args.organisation), global).await?;
        if !args.yes {
            confirm(&org).await?;
        }
        client.delete_org(&org.id, &org.slug).await.map_err(advise)?;
        if global.is_structured() {
            global.print(&json!({ "deleted": [org.id] }))?;
        } else {
            output::line(&format!("deleted {}; what it owned is being removed", org.slug))?;
        }
        Ok(ExitCode::SUCCESS)
    })
    .await
}

async fn confirm(org: &Org) -> anyhow::Result<()> {
    let Org { slug, name, .. } = org;
    if !prompt::is_interactive() {
        bail!("this deletes {name:?} ({slug}) and everything that it owns; confirm it with --yes");
    }
    eprintln!(
        "This deletes {name:?} with its sandboxes, snapshots, volumes, databases, templates, webhooks and API keys.\n\
         It cannot be undone."
    );
    if prompt::ask(&format!("Type {slug} to delete it: ")).await?.trim() != slug {
        bail!("nothing was deleted");
    }
    Ok(())
}
