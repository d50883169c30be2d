//! `pandastack context list`

use std::process::ExitCode;

use pandastack_client::SavedContext;
use serde_json::{Value, json};

use crate::{GlobalArgs, account::saved, output};

/// Arguments of `context list`.
#[derive(Debug, clap::Args)]
pub struct ListContextsArgs {
    /// Print only names; the same as -o name
    #[arg(long, short, conflicts_with_all = ["json", "output"])]
    quiet: bool,
}

/// Lists contexts by name.
pub fn list(args: &ListContextsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let contexts = saved()?.contexts();
    if global.is_structured() {
        global.print(&contexts.iter().map(described).collect::<Vec<_>>())?;
    } else if args.quiet {
        contexts.iter().try_for_each(|context| output::line(&context.name))?;
    } else if contexts.is_empty() {
        eprintln!("no contexts; add one with: pandastack context add NAME URL");
    } else {
        output::table(&["NAME", "SERVER", "CREDENTIAL", "CURRENT"], &contexts.iter().map(row).collect::<Vec<_>>())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A context as programs see it.
pub fn described(context: &SavedContext) -> Value {
    let SavedContext { name, url, is_current, credential } = context;
    json!({ "name": name, "api_url": url, "current": is_current, "credential": credential })
}

fn row(context: &SavedContext) -> Vec<String> {
    let SavedContext { name, url, is_current, credential } = context;
    let mark = if *is_current { "*" } else { "" };
    vec![name.clone(), url.clone(), (*credential).to_owned(), mark.to_owned()]
}
