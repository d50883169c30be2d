//! Routes of managed databases.

use serde_json::json;

use super::operation::{Operation, query, route};
use crate::{
    BranchDatabase, ChangeDatabase, CreateDatabase, DatabaseConnection, DatabaseLogs, DatabaseStats, DatabaseWake,
    ManagedDatabase, ManagedDatabaseList,
};

const TAG: &str = "Databases";
/// Error statuses of work on a host.
const HOST: &[u16] = &[409, 502, 503, 504, 507];

pub fn operations() -> Vec<Operation> {
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
