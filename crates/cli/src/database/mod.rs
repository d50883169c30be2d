//! `pandastack db …`

mod always_on;
mod branch;
mod create;
mod delete;
mod get;
mod list;
mod logs;
mod psql;
mod query;
mod reset;
mod stats;
#[cfg(test)]
mod tests;
mod url;
mod wait;
mod wake;

use std::process::ExitCode;

use crate::GlobalArgs;

/// Commands for managed databases.
#[derive(Debug, clap::Subcommand)]
pub enum DatabaseCommand {
    /// Create a PostgreSQL database and print its connection URL
    Create(create::CreateDatabaseArgs),
    /// List databases, newest first
    #[command(alias = "ls")]
    List(list::ListDatabasesArgs),
    /// Show one database
    Get(get::GetDatabaseArgs),
    /// Print the connection URL of a database, which contains its password
    Url(url::DatabaseUrlArgs),
    /// Open psql, which must be installed on this computer
    Psql(psql::PsqlArgs),
    /// Run one SQL statement and print its rows
    Query(query::QueryDatabaseArgs),
    /// Copy a database with its data; the copy has credentials of its own
    Branch(branch::BranchDatabaseArgs),
    /// Wake a hibernated database; a connection does the same
    Wake(wake::WakeDatabaseArgs),
    /// Show the size, connections and disk of a running database
    Stats(stats::DatabaseStatsArgs),
    /// Show the last lines of a running database's log
    Logs(logs::DatabaseLogsArgs),
    /// Replace the password and the broker token; the old ones stop working
    ResetCredentials(reset::ResetCredentialsArgs),
    /// Choose whether a database sleeps when nobody uses it
    AlwaysOn(always_on::AlwaysOnArgs),
    /// Delete databases with their data
    #[command(alias = "rm")]
    Delete(delete::DeleteDatabaseArgs),
}

/// Runs one of these commands.
pub async fn execute(command: DatabaseCommand, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match command {
        DatabaseCommand::Create(args) => create::create(args, global).await,
        DatabaseCommand::List(args) => list::list(args, global).await,
        DatabaseCommand::Get(args) => get::get(args, global).await,
        DatabaseCommand::Url(args) => url::url(args, global).await,
        DatabaseCommand::Psql(args) => psql::psql(args, global).await,
        DatabaseCommand::Query(args) => query::query(args, global).await,
        DatabaseCommand::Branch(args) => branch::branch(args, global).await,
        DatabaseCommand::Wake(args) => wake::wake(args, global).await,
        DatabaseCommand::Stats(args) => stats::stats(args, global).await,
        DatabaseCommand::Logs(args) => logs::logs(args, global).await,
        DatabaseCommand::ResetCredentials(args) => reset::reset(args, global).await,
        DatabaseCommand::AlwaysOn(args) => always_on::always_on(args, global).await,
        DatabaseCommand::Delete(args) => delete::delete(args, global).await,
    }
}
