//! `pandastack db …`

mod always_on;
mod backup;
mod backups;
mod branch;
mod clone;
mod create;
mod delete;
mod diff;
mod failover;
mod get;
mod list;
mod logs;
mod moment;
mod psql;
mod query;
mod remote_psql;
mod reset;
mod reset_credentials;
mod restart;
mod stats;
#[cfg(test)]
mod tests;
mod tree;
mod url;
mod verify_backup;
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
    /// Open psql: that of this computer, or else that of the database's machine
    Psql(psql::PsqlArgs),
    /// Run one SQL statement and print its rows
    Query(query::QueryDatabaseArgs),
    /// Copy a database with its data; the copy has credentials of its own
    Branch(branch::BranchDatabaseArgs),
    /// Draw which database was branched or cloned from which
    #[command(visible_alias = "branches")]
    Tree(tree::DatabaseTreeArgs),
    /// Compare the schemas of two databases, or of a branch and its parent
    Diff(diff::DiffDatabasesArgs),
    /// Make a branch what its parent is now; its own changes are lost
    Reset(reset::ResetDatabaseArgs),
    /// Make a database from the backups of another one, as that was at a time
    Clone(clone::CloneDatabaseArgs),
    /// Show backups, the times that can be restored, and the state of the archive
    Backups(backups::BackupsArgs),
    /// Take a backup now
    Backup(backup::TakeBackupArgs),
    /// Restore a backup into a scratch machine and check the data
    VerifyBackup(verify_backup::VerifyBackupArgs),
    /// Restart a database on the newest version of its template; its data stays
    Restart(restart::RestartDatabaseArgs),
    /// Rebuild a failed database from its archive; try `restart` first, which loses nothing
    Failover(failover::FailoverArgs),
    /// Wake a hibernated database; a connection does the same
    Wake(wake::WakeDatabaseArgs),
    /// Show the size, connections and disk of a running database
    Stats(stats::DatabaseStatsArgs),
    /// Show the last lines of a running database's log
    Logs(logs::DatabaseLogsArgs),
    /// Replace the password and the broker token; the old ones stop working
    ResetCredentials(reset_credentials::ResetCredentialsArgs),
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
        DatabaseCommand::Tree(args) => tree::tree(args, global).await,
        DatabaseCommand::Diff(args) => diff::diff(args, global).await,
        DatabaseCommand::Reset(args) => reset::reset(args, global).await,
        DatabaseCommand::Clone(args) => clone::clone(args, global).await,
        DatabaseCommand::Backups(args) => backups::backups(args, global).await,
        DatabaseCommand::Backup(args) => backup::backup(args, global).await,
        DatabaseCommand::VerifyBackup(args) => verify_backup::verify_backup(args, global).await,
        DatabaseCommand::Restart(args) => restart::restart(args, global).await,
        DatabaseCommand::Failover(args) => failover::failover(args, global).await,
        DatabaseCommand::Wake(args) => wake::wake(args, global).await,
        DatabaseCommand::Stats(args) => stats::stats(args, global).await,
        DatabaseCommand::Logs(args) => logs::logs(args, global).await,
        DatabaseCommand::ResetCredentials(args) => reset_credentials::reset(args, global).await,
        DatabaseCommand::AlwaysOn(args) => always_on::always_on(args, global).await,
        DatabaseCommand::Delete(args) => delete::delete(args, global).await,
    }
}
