//! `pandastack db query`

use std::{
    io::{self, Read},
    process::ExitCode,
};

use anyhow::Context;
use pandastack_client::{SqlQuery, SqlRows, SqlStatement, wire::DATABASE_ROLE};
use pandastack_kit::Secret;
use serde_json::{Value, value::RawValue};

use crate::{
    GlobalArgs,
    advice::advise,
    exit::ExitReason,
    output::{self, OutputForm},
    pick::DatabaseArg,
    spinner::Spinner,
};

/// Longest statement, as in the server.
const SQL_BYTES_MAX: u64 = 1024 * 1024;
/// Rows that the server returns at most.
const ROWS_MAX: u64 = 10_000;
/// Longest time that a statement may run, as in the server.
const SECONDS_MAX: u64 = 300;

/// Arguments of `db query`.
#[derive(Debug, clap::Args)]
pub struct QueryDatabaseArgs {
    #[command(flatten)]
    database: DatabaseArg,
    /// Statement, or - to read it from standard input; $1 is the first parameter
    sql: String,
    /// Value of the next parameter as text, which PostgreSQL converts; may be repeated
    #[arg(long = "param", short, value_name = "VALUE", allow_hyphen_values = true)]
    params: Vec<String>,
    /// Database inside the server
    #[arg(long, value_name = "NAME", default_value = DATABASE_ROLE)]
    dbname: String,
    /// End the statement after this many seconds, at most 300
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    timeout: Option<u64>,
}

/// Runs a statement through the HTTP broker of the database, which wakes it.
pub async fn query(args: QueryDatabaseArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.database.find(global).await?;
    let sql = if args.sql == "-" { read(&mut io::stdin().lock())? } else { args.sql };
    let statement = SqlStatement { sql, params: args.params.into_iter().map(Value::String).collect() };
    let timeout_ms = args.timeout.map(|seconds| seconds * 1000);
    let ask = SqlQuery { database: args.dbname, statement, timeout_ms, max_rows: None };
    let spinner = Spinner::start("running");
    let token = client.database_connection(&id).await.map_err(advise)?.broker_token;
    let rows = client.database_broker(&id, Secret::new(token)).query(&ask).await.map_err(advise)?;
    drop(spinner);
    print(&rows, global)?;
    Ok(ExitCode::SUCCESS)
}

fn print(rows: &SqlRows, global: &GlobalArgs) -> anyhow::Result<()> {
    match global.form() {
        OutputForm::Json | OutputForm::Yaml => global.print(rows)?,
        OutputForm::Name => {
            let first = rows.rows.iter().filter_map(|row| row.first());
            first.map(|value| cell(value)).try_for_each(|text| output::line(&text))?;
        }
        OutputForm::Table => {
            let head: Vec<&str> = rows.columns.iter().map(|column| column.name.as_str()).collect();
            if !head.is_empty() {
                output::table(&head, &cells(rows))?;
            }
            eprintln!("{}", summary(rows));
        }
    }
    if rows.count >= ROWS_MAX {
        output::warn(&format!(
            "only the first {ROWS_MAX} rows are shown; use LIMIT and OFFSET, or: pandastack db psql"
        ));
    }
    Ok(())
}

fn read(input: &mut dyn Read) -> anyhow::Result<String> {
    let mut sql = String::new();
    input.take(SQL_BYTES_MAX + 1).read_to_string(&mut sql).context("read standard input")?;
    if sql.len() as u64 > SQL_BYTES_MAX {
        let text = "the statement is larger than 1 MiB; use: pandastack db psql ID -- -f FILE";
        return Err(ExitReason::Usage.error(text));
    }
    Ok(sql)
}

/// The rows as a table shows them.
pub(super) fn cells(rows: &SqlRows) -> Vec<Vec<String>> {
    rows.rows.iter().map(|row| row.iter().map(|value| cell(value)).collect()).collect()
}

/// Texts without quotes, everything else as JSON. A cell has one line.
fn cell(value: &RawValue) -> String {
    match value.get() {
        "null" => "NULL".to_owned(),
        json if json.starts_with('"') => {
            let text: String = serde_json::from_str(json).unwrap_or_else(|_| json.to_owned());
            text.replace('\n', "\\n").replace('\t', "\\t")
        }
        json => json.to_owned(),
    }
}

pub(super) fn summary(rows: &SqlRows) -> String {
    let SqlRows { columns, count, duration_ms, .. } = rows;
    match (columns.is_empty(), count) {
        (true, _) => format!("done in {duration_ms} ms"),
        (false, 1) => format!("1 row in {duration_ms} ms"),
        (false, count) => format!("{count} rows in {duration_ms} ms"),
    }
}
