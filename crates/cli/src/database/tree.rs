//! `pandastack db tree`

use std::{io::IsTerminal, process::ExitCode};

use clap_complete::ArgValueCompleter;
use pandastack_client::wire::ManagedDatabase;

use crate::{
    GlobalArgs,
    advice::advise,
    colour, complete,
    connect::connect,
    find::{Candidate, FoundKind, choose},
    output,
    tree_picture::{TreeLine, draw, mark},
};

/// Arguments of `db tree`.
#[derive(Debug, clap::Args)]
pub struct DatabaseTreeArgs {
    /// Database: its id, a unique start of it, or its label; by default all databases
    #[arg(value_name = "ID", add = ArgValueCompleter::new(complete::databases))]
    id: Option<String>,
}

/// Draws which database was branched or cloned from which.
pub async fn tree(args: DatabaseTreeArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let mut databases = connect(global)?.databases().await.map_err(advise)?;
    // Copies stand in the order in which they were made.
    databases.reverse();
    let asked = match &args.id {
        Some(text) => {
            let candidates = databases.iter().map(Candidate::from).collect();
            Some(choose(FoundKind::Database, candidates, text)?)
        }
        None => None,
    };
    if let Some(id) = &asked {
        databases = family(databases, id);
    }
    if global.is_structured() {
        global.print(&databases)?;
    } else if databases.is_empty() {
        eprintln!("no databases; create one with: pandastack db create");
    } else {
        let is_coloured = colour::is_wanted(std::io::stdout().is_terminal());
        output::line(picture(&databases, asked.as_deref(), is_coloured).trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Draws databases. Those whose source was deleted are roots.
pub(super) fn picture(databases: &[ManagedDatabase], asked: Option<&str>, is_coloured: bool) -> String {
    let line = |database: &ManagedDatabase| {
        let ManagedDatabase { id, label, status, cloned_from, .. } = database;
        let label = label.iter().map(|label| format!("  {label}")).collect::<String>();
        let state = if is_coloured { colour::state(status) } else { status.clone() };
        let kind = if cloned_from.is_some() { "  (clone)" } else { "" };
        let this = if asked == Some(id) { "  ← this one" } else { "" };
        let label: String = label.chars().filter(|letter| !letter.is_control()).collect();
        let text = format!("{} {id}{label}  {state}{kind}{this}", mark(status));
        TreeLine { id: id.clone(), parent: source(database).map(str::to_owned), text }
    };
    draw(&databases.iter().map(line).collect::<Vec<_>>())
}

/// Keeps the databases that have the same first source as one of them.
pub(super) fn family(databases: Vec<ManagedDatabase>, id: &str) -> Vec<ManagedDatabase> {
    let first = root(&databases, id).to_owned();
    let related: Vec<bool> = databases.iter().map(|database| root(&databases, &database.id) == first).collect();
    databases.into_iter().zip(related).filter_map(|(database, is_related)| is_related.then_some(database)).collect()
}

/// Follows sources back as far as the databases still exist.
fn root<'a>(databases: &'a [ManagedDatabase], id: &'a str) -> &'a str {
    let mut found = id;
    // Sources cannot form a circle, but a server's answer is not trusted to be finite.
    for _ in databases {
        let database = databases.iter().find(|database| database.id == found);
        match database.and_then(source).filter(|from| databases.iter().any(|known| known.id == *from)) {
            Some(from) => found = from,
            None => break,
        }
    }
    found
}

fn source(database: &ManagedDatabase) -> Option<&str> {
    database.branched_from.as_deref().or(database.cloned_from.as_deref())
}
