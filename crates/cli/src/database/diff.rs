//! `pandastack db diff`

use std::{io::IsTerminal, process::ExitCode};

use clap_complete::ArgValueCompleter;

use crate::{
    GlobalArgs, advice::advise, colour, complete, find::FoundKind, output, pick::DatabaseArg, spinner::Spinner,
};

/// Arguments of `db diff`.
#[derive(Debug, clap::Args)]
pub struct DiffDatabasesArgs {
    #[command(flatten)]
    database: DatabaseArg,
    /// The database to compare with: its id, a unique start of it, or its label; by default the
    /// parent of the branch
    #[arg(value_name = "OTHER", add = ArgValueCompleter::new(complete::databases))]
    other: Option<String>,
    /// End with 1 if the schemas differ
    #[arg(long)]
    exit_code: bool,
}

/// Compares the schemas of two databases.
pub async fn diff(args: DiffDatabasesArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.database.find(global).await?;
    let other = match &args.other {
        Some(text) => Some(FoundKind::Database.find(&client, text).await?),
        None => None,
    };
    let spinner = Spinner::start("comparing schemas");
    let found = client.database_diff(&id, other.as_deref()).await.map_err(advise)?;
    drop(spinner);
    if global.is_structured() {
        global.print(&found)?;
    } else if found.same {
        eprintln!("the schemas of {} and {} are the same", found.from, found.to);
    } else {
        let is_coloured = colour::is_wanted(std::io::stdout().is_terminal());
        found.diff.lines().map(|line| shown(line, is_coloured)).try_for_each(|line| output::line(&line))?;
    }
    Ok(if args.exit_code && !found.same { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A line of a diff as a terminal shows it. Names come from the databases, and a terminal obeys
/// control characters.
pub(super) fn shown(line: &str, is_coloured: bool) -> String {
    let text: String = line.chars().filter(|letter| *letter == '\t' || !letter.is_control()).collect();
    let colour = match text.as_str() {
        head if head.starts_with("+++ ") || head.starts_with("--- ") => 1,
        range if range.starts_with("@@") => 36,
        added if added.starts_with('+') => 32,
        removed if removed.starts_with('-') => 31,
        _ => return text,
    };
    if is_coloured { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text }
}
