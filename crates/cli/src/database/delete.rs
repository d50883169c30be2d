//! `pandastack db delete`

use std::{cell::RefCell, process::ExitCode};

use anyhow::bail;
use clap_complete::ArgValueCompleter;
use pandastack_client::wire::ManagedDatabase;

use crate::{
    GlobalArgs,
    advice::advise,
    complete,
    connect::connect,
    exit::ExitReason,
    find::{Candidate, FoundKind, choose},
    many::DeleteFormat,
    prompt,
};

/// Arguments of `db delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteDatabaseArgs {
    /// Databases: ids, unique starts of them, or labels
    #[arg(required = true, value_name = "ID", add = ArgValueCompleter::new(complete::databases))]
    ids: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    form: DeleteFormat,
}

/// Deletes each database with its data, after the person has agreed. A failure does not stop the
/// others.
pub async fn delete(args: DeleteDatabaseArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let DeleteDatabaseArgs { ids, yes, form } = args;
    let client = connect(global)?;
    let databases = client.databases().await.map_err(advise)?;
    let found = found(&databases, &ids);
    let named: Vec<&ManagedDatabase> =
        databases.iter().filter(|database| found.iter().flatten().any(|id| *id == database.id)).collect();
    prompt::until_stopped(async {
        if !yes && !named.is_empty() {
            confirm(&named).await?;
        }
        // What the person agreed to is deleted, even if a label belongs to another one by now.
        let found = RefCell::new(found.into_iter());
        let delete = async |_: &str| {
            let next = found.borrow_mut().next();
            let id = next.expect("there is one result for each name")?;
            client.delete_database(&id).await.map_err(advise)?;
            Ok(id)
        };
        form.each(global, ids, delete).await
    })
    .await
}

/// Finds what each text names.
fn found(databases: &[ManagedDatabase], texts: &[String]) -> Vec<anyhow::Result<String>> {
    let candidates: Vec<Candidate> = databases.iter().map(Candidate::from).collect();
    texts.iter().map(|text| choose(FoundKind::Database, candidates.clone(), text)).collect()
}

async fn confirm(databases: &[&ManagedDatabase]) -> anyhow::Result<()> {
    let lost = lost(databases);
    if !prompt::is_interactive() {
        return Err(ExitReason::Usage.error(format!("{lost}\nConfirm it with --yes")));
    }
    eprintln!("{lost}\nIt cannot be undone.");
    let it = if databases.len() == 1 { "it" } else { "them" };
    if prompt::ask(&format!("Type yes to delete {it}: ")).await?.trim() != "yes" {
        bail!("nothing was deleted");
    }
    Ok(())
}

/// Says what a deletion loses.
pub(super) fn lost(databases: &[&ManagedDatabase]) -> String {
    let line = |database: &&ManagedDatabase| {
        let Candidate { id, about, .. } = Candidate::from(*database);
        format!("\n  {id}  {about}")
            .chars()
            .filter(|letter| *letter == '\n' || !letter.is_control())
            .collect::<String>()
    };
    let many = match databases.len() {
        1 => "this database with all its data".to_owned(),
        count => format!("these {count} databases with all their data"),
    };
    format!("This deletes {many}:{}", databases.iter().map(line).collect::<String>())
}
