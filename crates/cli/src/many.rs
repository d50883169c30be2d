//! Code that all `list` and `delete` commands share.

use std::process::ExitCode;

use pandastack_client::ClientError;
use serde::Serialize;
use serde_json::json;

use crate::{
    GlobalArgs,
    advice::advise,
    exit::exit_code_of,
    output::{self, OutputForm, shown_table, structured},
    watch::{WatchArgs, watch},
};

/// How a list is printed.
#[derive(Debug, clap::Args)]
pub struct ListFormat {
    /// Print only ids, or names for resources that have one; the same as -o name
    #[arg(long, short, conflicts_with_all = ["json", "output"])]
    quiet: bool,
    #[command(flatten)]
    watch: WatchArgs,
}

/// How a list is shown as a table.
pub struct TableFormat<'a, T> {
    pub head: &'a [&'a str],
    /// The cells of one row. The id or name is first.
    pub row: fn(&T) -> Vec<String>,
    /// Text for an empty list, with the next step.
    pub empty: &'a str,
}

impl ListFormat {
    /// Prints a list, again and again if the user wants to watch it.
    pub async fn print<T: Serialize>(
        &self,
        global: &GlobalArgs,
        listing: TableFormat<'_, T>,
        list: impl AsyncFn() -> Result<Vec<T>, ClientError>,
    ) -> anyhow::Result<ExitCode> {
        let form = if self.quiet { OutputForm::Name } else { global.form() };
        let text = async || {
            let things = list().await.map_err(advise)?;
            written(form, &listing, &things)
        };
        match self.watch.pause() {
            Some(pause) => watch(pause, form, listing.empty, text).await,
            None => {
                match text().await?.as_str() {
                    "" if form == OutputForm::Table => eprintln!("{}", listing.empty),
                    "" => {}
                    text => output::line(text)?,
                }
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// Writes a list. Without a line break at the end; empty if there is nothing.
fn written<T: Serialize>(form: OutputForm, listing: &TableFormat<'_, T>, things: &[T]) -> anyhow::Result<String> {
    let rows = || things.iter().map(listing.row).collect::<Vec<_>>();
    let text = match form {
        OutputForm::Json | OutputForm::Yaml => structured(form, &things)?,
        OutputForm::Name => rows().iter().filter_map(|row| row.first().cloned()).collect::<Vec<_>>().join("\n"),
        OutputForm::Table if things.is_empty() => String::new(),
        OutputForm::Table => shown_table(listing.head, &rows()),
    };
    Ok(text.trim_end_matches('\n').to_owned())
}

/// How deletions are reported.
#[derive(Debug, clap::Args)]
pub struct DeleteFormat {
    /// Print nothing
    #[arg(long, short, conflicts_with_all = ["json", "output"])]
    quiet: bool,
}

impl DeleteFormat {
    /// Deletes one resource after the other. A failure does not stop the others.
    pub async fn each(
        &self,
        global: &GlobalArgs,
        names: Vec<String>,
        delete: impl AsyncFn(&str) -> anyhow::Result<String>,
    ) -> anyhow::Result<ExitCode> {
        self.each_as("deleted", global, names, delete).await
    }

    /// Does the same for a change that has another name, such as "removed". The change returns the
    /// id of what it changed.
    pub async fn each_as(
        &self,
        done: &str,
        global: &GlobalArgs,
        names: Vec<String>,
        change: impl AsyncFn(&str) -> anyhow::Result<String>,
    ) -> anyhow::Result<ExitCode> {
        let (mut changed, mut ended) = (Vec::new(), ExitCode::SUCCESS);
        for name in names {
            match change(&name).await {
                Ok(id) => {
                    if !self.quiet && !global.is_structured() {
                        output::line(&format!("{done} {id}"))?;
                    }
                    changed.push(id);
                }
                Err(error) => {
                    eprintln!("error: {name}: {error:#}");
                    ended = exit_code_of(&error);
                }
            }
        }
        if global.is_structured() {
            global.print(&json!({ done: changed }))?;
        }
        Ok(ended)
    }
}
