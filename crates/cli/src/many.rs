//! Code that all `list` and `delete` commands share.

use std::process::ExitCode;

use pandastack_client::ClientError;
use serde::Serialize;
use serde_json::json;

use crate::{advice::advise, output};

/// How a list is printed.
#[derive(Debug, clap::Args)]
pub struct ListFormat {
    /// Print as JSON
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print only ids, or names for resources that have one
    #[arg(long, short)]
    quiet: bool,
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
    /// Prints a list.
    pub fn print<T: Serialize>(&self, things: &[T], listing: TableFormat<'_, T>) -> anyhow::Result<ExitCode> {
        if self.json {
            output::json(&things)?;
            return Ok(ExitCode::SUCCESS);
        }
        let rows: Vec<_> = things.iter().map(listing.row).collect();
        if self.quiet {
            for name in rows.iter().filter_map(|row| row.first()) {
                output::line(name)?;
            }
        } else if rows.is_empty() {
            eprintln!("{}", listing.empty);
        } else {
            output::table(listing.head, &rows)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// How deletions are reported.
#[derive(Debug, clap::Args)]
pub struct DeleteFormat {
    /// Print what was done as JSON
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print nothing
    #[arg(long, short)]
    quiet: bool,
}

impl DeleteFormat {
    /// Deletes one resource after the other. A failure does not stop the others.
    pub async fn each(
        &self,
        names: Vec<String>,
        delete: impl AsyncFn(&str) -> Result<(), ClientError>,
    ) -> anyhow::Result<ExitCode> {
        self.each_as("deleted", names, delete).await
    }

    /// Does the same for a change that has another name, such as "removed".
    pub async fn each_as(
        &self,
        done: &str,
        names: Vec<String>,
        change: impl AsyncFn(&str) -> Result<(), ClientError>,
    ) -> anyhow::Result<ExitCode> {
        let (mut changed, mut ended) = (Vec::new(), ExitCode::SUCCESS);
        for name in names {
            match change(&name).await {
                Ok(()) => {
                    if !self.json && !self.quiet {
                        output::line(&format!("{done} {name}"))?;
                    }
                    changed.push(name);
                }
                Err(error) => {
                    eprintln!("error: {name}: {}", advise(error));
                    ended = ExitCode::FAILURE;
                }
            }
        }
        if self.json {
            output::json(&json!({ done: changed }))?;
        }
        Ok(ended)
    }
}
