//! Routes of managed databases.

use serde_json::json;

use super::operation::{Operation, query, route};
use crate::{
    BackupDrill, BranchDatabase, ChangeDatabase, CloneDatabase, CreateDatabase, DatabaseBackup, DatabaseBackups,
    DatabaseConnection, DatabaseLogs, DatabaseStats, DatabaseWake, ManagedDatabase, ManagedDatabaseList, SchemaDiff,
    VerifyBackup,
};

const TAG: &str = "Databases";
/// Error statuses of work on a host.
const HOST: &[u16] = &[409, 502, 503, 504, 507];

pub fn operations() -> Vec<Operation> {
    let mut all = life();
    all.extend(repairs());
    all
}

fn life() -> Vec<Operation> {
    let lines = json!({"type": "integer", "minimum": 10, "maximum": 2000});
    vec![
        route(TAG, "POST", "/v1/databases", "Create a PostgreSQL database; returns at once")
            .once()
            .notes("It is ready when its status is `running`. Another size than 1g needs the template of that size.")
            .refuses(&[402])
            .refuses(HOST)
            .may_take::<CreateDatabase>(json!({"label": "orders", "size": "1g"}))
            .gives::<ManagedDatabase>(202),
        route(TAG, "GET", "/v1/databases", "List databases without credentials, newest first")
            .gives::<ManagedDatabaseList>(200),
        route(TAG, "GET", "/v1/databases/{id}", "Show a database; does not wake it").gives::<ManagedDatabase>(200),
        route(TAG, "PATCH", "/v1/databases/{id}", "Change whether a database sleeps when idle")
            .refuses(HOST)
            .may_take::<ChangeDatabase>(json!({"always_on": true}))
            .gives::<ManagedDatabase>(200),
        route(TAG, "DELETE", "/v1/databases/{id}", "Delete a database with its data").refuses(HOST).gives_nothing(204),
        route(TAG, "GET", "/v1/databases/{id}/connection", "Show how to connect")
            .refuses(&[503])
            .gives::<DatabaseConnection>(200),
        route(TAG, "POST", "/v1/databases/{id}/wake", "Wake a database")
            .refuses(&[402])
            .refuses(HOST)
            .gives::<DatabaseWake>(200),
        route(TAG, "POST", "/v1/databases/{id}/reset-credentials", "Replace password and broker token")
            .refuses(HOST)
            .gives::<ManagedDatabase>(200),
        route(TAG, "POST", "/v1/databases/{id}/branches", "Branch a database as it is now")
            .ours()
            .once()
            .notes(
                "The branch is a fork of the live server with its data and its cache. It has credentials of its own \
                 and is ready when its status is `running`. The source goes on.",
            )
            .refuses(&[402])
            .refuses(HOST)
            .may_take::<BranchDatabase>(json!({"label": "try the new index"}))
            .gives::<ManagedDatabase>(202),
        route(TAG, "GET", "/v1/databases/{id}/stats", "Measure a running database")
            .refuses(HOST)
            .gives::<DatabaseStats>(200),
        route(TAG, "GET", "/v1/databases/{id}/logs", "Show the last lines of a running database's log")
            .with(query("lines", lines, "Maximum number of lines; 300 by default."))
            .refuses(HOST)
            .gives::<DatabaseLogs>(200),
        route(TAG, "ANY", "/v1/databases/{id}/proxy/{path}", "Run SQL over HTTP, with the database's broker token")
            .notes(
                "Paths: `GET v1/health`, `GET v1/info`, `POST v1/query`, `POST v1/exec`, `POST v1/transaction`, `GET \
                 v1/databases`, `POST v1/databases`, `DELETE v1/databases/{name}`.",
            )
            .open()
            .refuses(&[401, 404, 409, 413, 429, 503])
            .takes_content(json!({"*/*": {"schema": {}}}), false)
            .gives_content(0, "application/json", json!({})),
    ]
}

/// Branches that are compared and reset, restarts, backups, and what is restored from them.
fn repairs() -> Vec<Operation> {
    vec![
        route(TAG, "POST", "/v1/databases/{id}/reset", "Reset a branch to what its parent is now")
            .ours()
            .notes("The branch keeps its id and its credentials and loses its own changes and backups.")
            .refuses(HOST)
            .gives::<ManagedDatabase>(202),
        route(TAG, "GET", "/v1/databases/{id}/diff", "Compare the schemas of two databases")
            .ours()
            .with(query("to", json!({"type": "string"}), "The other database; the parent by default."))
            .refuses(&[400])
            .refuses(HOST)
            .gives::<SchemaDiff>(200),
        route(TAG, "POST", "/v1/databases/{id}/restart", "Restart a database on the newest version of its template")
            .ours()
            .notes("Its data stays. Connections end. A database that failed is started again with its data.")
            .refuses(&[402])
            .refuses(HOST)
            .gives::<ManagedDatabase>(202),
        route(TAG, "POST", "/v1/databases/{id}/clone", "Clone a database as it was at a time")
            .once()
            .notes("The clone is made from the archive: the source is not touched and may be asleep or failed.")
            .refuses(&[402])
            .refuses(HOST)
            .may_take::<CloneDatabase>(json!({"label": "before the mistake", "target_time": "2026-01-31T23:59:59Z"}))
            .gives::<ManagedDatabase>(202),
        route(TAG, "POST", "/v1/databases/{id}/failover", "Rebuild a failed database from its archive")
            .notes("It keeps its id and its host name and gets new credentials.")
            .refuses(&[402])
            .refuses(HOST)
            .gives::<ManagedDatabase>(200),
        route(TAG, "GET", "/v1/databases/{id}/backups", "Show backups, the restore window and the archive's state")
            .ours()
            .refuses(HOST)
            .gives::<DatabaseBackups>(200),
        route(TAG, "POST", "/v1/databases/{id}/backups", "Take a base backup now")
            .ours()
            .refuses(HOST)
            .gives::<DatabaseBackup>(201),
        route(TAG, "POST", "/v1/databases/{id}/verify-backup", "Restore into a scratch machine and check the data")
            .ours()
            .notes("Returns at once. The result is the `drill` of the database's backups.")
            .refuses(&[402])
            .refuses(HOST)
            .may_take::<VerifyBackup>(json!({"target_time": "2026-01-31T23:59:59Z"}))
            .gives::<BackupDrill>(202),
    ]
}
