//! Managed databases. `broker` sends SQL to them.

use std::time::Duration;

use pandastack_wire_public::{
    BackupDrill, BranchDatabase, ChangeDatabase, CloneDatabase, CreateDatabase, DatabaseBackup, DatabaseBackups,
    DatabaseConnection, DatabaseLogs, DatabaseStats, DatabaseWake, ManagedDatabase, ManagedDatabaseList, SchemaDiff,
    VerifyBackup,
};
use reqwest::Method;

use crate::{Client, ClientError, client::ANSWER_MAX};

/// Timeout of work in the machine of a database that the server waits for.
const WORK_MAX: Duration = Duration::from_secs(300);
/// Timeout of a base backup. It grows with the data.
const BACKUP_MAX: Duration = Duration::from_secs(3600);

impl Client {
    /// Creates a database. It has credentials when its status is `running`.
    pub async fn create_database(&self, ask: &CreateDatabase) -> Result<ManagedDatabase, ClientError> {
        self.json(self.request(Method::POST, &["databases"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Lists databases without credentials, newest first.
    pub async fn databases(&self) -> Result<Vec<ManagedDatabase>, ClientError> {
        let list: ManagedDatabaseList =
            self.json(self.request(Method::GET, &["databases"])?.timeout(ANSWER_MAX)).await?;
        Ok(list.items)
    }

    /// Shows one database, with its credentials if it has them.
    pub async fn get_database(&self, id: &str) -> Result<ManagedDatabase, ClientError> {
        self.json(self.request(Method::GET, &["databases", id])?.timeout(ANSWER_MAX)).await
    }

    /// Changes whether a database sleeps when nobody uses it.
    pub async fn change_database(&self, id: &str, change: &ChangeDatabase) -> Result<ManagedDatabase, ClientError> {
        self.json(self.request(Method::PATCH, &["databases", id])?.timeout(ANSWER_MAX).json(change)).await
    }

    /// Deletes a database with its data.
    pub async fn delete_database(&self, id: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, &["databases", id])?.timeout(ANSWER_MAX)).await.map(drop)
    }

    /// Shows how to connect to a database. Refused while it has no credentials.
    pub async fn database_connection(&self, id: &str) -> Result<DatabaseConnection, ClientError> {
        self.json(self.request(Method::GET, &["databases", id, "connection"])?.timeout(ANSWER_MAX)).await
    }

    /// Wakes a database. It may already be awake.
    pub async fn wake_database(&self, id: &str) -> Result<DatabaseWake, ClientError> {
        self.json(self.request(Method::POST, &["databases", id, "wake"])?.timeout(ANSWER_MAX)).await
    }

    /// Replaces the password and the broker token. The old ones are refused from then on.
    pub async fn reset_database_credentials(&self, id: &str) -> Result<ManagedDatabase, ClientError> {
        self.json(self.request(Method::POST, &["databases", id, "reset-credentials"])?.timeout(ANSWER_MAX)).await
    }

    /// Makes a copy of a database, with its data and credentials of its own.
    pub async fn branch_database(&self, id: &str, ask: &BranchDatabase) -> Result<ManagedDatabase, ClientError> {
        self.json(self.request(Method::POST, &["databases", id, "branches"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Makes a database from the archive of another one, as that was at a time.
    pub async fn clone_database(&self, id: &str, ask: &CloneDatabase) -> Result<ManagedDatabase, ClientError> {
        self.json(self.request(Method::POST, &["databases", id, "clone"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Rebuilds a failed database from its archive. It gets new credentials.
    pub async fn failover_database(&self, id: &str) -> Result<ManagedDatabase, ClientError> {
        self.json(self.request(Method::POST, &["databases", id, "failover"])?.timeout(WORK_MAX)).await
    }

    /// Restarts a database on the newest version of its template, with its data.
    pub async fn restart_database(&self, id: &str) -> Result<ManagedDatabase, ClientError> {
        self.json(self.request(Method::POST, &["databases", id, "restart"])?.timeout(ANSWER_MAX)).await
    }

    /// Makes a branch what its parent is now. It keeps its id and its credentials.
    pub async fn reset_database(&self, id: &str) -> Result<ManagedDatabase, ClientError> {
        self.json(self.request(Method::POST, &["databases", id, "reset"])?.timeout(ANSWER_MAX)).await
    }

    /// Compares the schemas of two databases; without `to`, of a branch and its parent.
    pub async fn database_diff(&self, id: &str, to: Option<&str>) -> Result<SchemaDiff, ClientError> {
        let path = ["databases", id, "diff"];
        let request = match to {
            Some(to) => self.query_request(Method::GET, &path, &[("to", to)])?,
            None => self.request(Method::GET, &path)?,
        };
        self.json(request.timeout(WORK_MAX)).await
    }

    /// Shows what a database could be restored from, and its last restore drill.
    pub async fn database_backups(&self, id: &str) -> Result<DatabaseBackups, ClientError> {
        self.json(self.request(Method::GET, &["databases", id, "backups"])?.timeout(ANSWER_MAX)).await
    }

    /// Takes a base backup and waits for its end.
    pub async fn back_up_database(&self, id: &str) -> Result<DatabaseBackup, ClientError> {
        self.json(self.request(Method::POST, &["databases", id, "backups"])?.timeout(BACKUP_MAX)).await
    }

    /// Starts a restore drill. `database_backups` shows its result.
    pub async fn verify_database_backup(&self, id: &str, ask: &VerifyBackup) -> Result<BackupDrill, ClientError> {
        self.json(self.request(Method::POST, &["databases", id, "verify-backup"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Measures a running database. Does not wake it.
    pub async fn database_stats(&self, id: &str) -> Result<DatabaseStats, ClientError> {
        self.json(self.request(Method::GET, &["databases", id, "stats"])?.timeout(ANSWER_MAX)).await
    }

    /// Returns the last lines of a running database's log. Does not wake it.
    pub async fn database_logs(&self, id: &str, lines: Option<u32>) -> Result<DatabaseLogs, ClientError> {
        let path = ["databases", id, "logs"];
        let request = match lines.map(|lines| lines.to_string()) {
            Some(lines) => self.query_request(Method::GET, &path, &[("lines", &lines)])?,
            None => self.request(Method::GET, &path)?,
        };
        self.json(request.timeout(ANSWER_MAX)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stand_in::StandIn;

    const SHOWN: &str = r#"{"id":"d","status":"running","template":"postgres-16","connection_url":"postgres://x"}"#;

    #[tokio::test]
    async fn a_database_is_made_changed_and_deleted() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config()).unwrap();
        let ask = CreateDatabase { label: Some("app".into()), ..CreateDatabase::default() };
        let (made, seen) = tokio::join!(client.create_database(&ask), server.answer(202, SHOWN));
        assert_eq!(made.unwrap().connection_url.as_deref(), Some("postgres://x"));
        assert_eq!((seen.first.as_str(), seen.body.as_str()), ("POST /v1/databases", r#"{"label":"app"}"#));
        let change = ChangeDatabase { always_on: Some(false) };
        let (done, seen) = tokio::join!(client.change_database("d", &change), server.answer(200, SHOWN));
        done.unwrap();
        assert_eq!((seen.first.as_str(), seen.body.as_str()), ("PATCH /v1/databases/d", r#"{"always_on":false}"#));
        let (done, seen) = tokio::join!(client.delete_database("a/b"), server.answer(204, ""));
        done.unwrap();
        assert_eq!(seen.first, "DELETE /v1/databases/a%2Fb");
    }

    #[tokio::test]
    async fn every_route_has_its_address() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config()).unwrap();
        let list = format!(r#"{{"items":[{SHOWN}],"count":1}}"#);
        let (found, seen) = tokio::join!(client.databases(), server.answer(200, &list));
        assert_eq!((found.unwrap().len(), seen.first.as_str()), (1, "GET /v1/databases"));
        let (found, seen) = tokio::join!(client.get_database("d"), server.answer(200, SHOWN));
        assert_eq!((found.unwrap().status.as_str(), seen.first.as_str()), ("running", "GET /v1/databases/d"));
        let (done, seen) = tokio::join!(client.reset_database_credentials("d"), server.answer(200, SHOWN));
        done.unwrap();
        assert_eq!(seen.first, "POST /v1/databases/d/reset-credentials");
        let ask = BranchDatabase::default();
        let (done, seen) = tokio::join!(client.branch_database("d", &ask), server.answer(202, SHOWN));
        done.unwrap();
        assert_eq!((seen.first.as_str(), seen.body.as_str()), ("POST /v1/databases/d/branches", "{}"));
        let wake = r#"{"id":"d","status":"waking"}"#;
        let (woken, seen) = tokio::join!(client.wake_database("d"), server.answer(200, wake));
        assert_eq!((woken.unwrap().status.as_str(), seen.first.as_str()), ("waking", "POST /v1/databases/d/wake"));
        for (lines, first) in [(None, "GET /v1/databases/d/logs"), (Some(20), "GET /v1/databases/d/logs?lines=20")] {
            let (logs, seen) = tokio::join!(client.database_logs("d", lines), server.answer(200, r#"{"logs":"a\nb"}"#));
            assert_eq!((logs.unwrap().logs.as_str(), seen.first.as_str()), ("a\nb", first));
        }
    }

    #[tokio::test]
    async fn restarts_resets_and_failovers_have_their_address() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config()).unwrap();
        let (done, seen) = tokio::join!(client.restart_database("d"), server.answer(202, SHOWN));
        assert_eq!((done.unwrap().id.as_str(), seen.first.as_str()), ("d", "POST /v1/databases/d/restart"));
        let (done, seen) = tokio::join!(client.reset_database("d"), server.answer(202, SHOWN));
        assert_eq!((done.unwrap().id.as_str(), seen.first.as_str()), ("d", "POST /v1/databases/d/reset"));
        let body = r#"{"error":"the database runs","code":"database.not_failed"}"#;
        let (refused, seen) = tokio::join!(client.failover_database("d"), server.answer(409, body));
        assert_eq!(refused.unwrap_err().code(), Some("database.not_failed"));
        assert_eq!(seen.first, "POST /v1/databases/d/failover");
        let diff = r#"{"from":"d","to":"e","same":false,"diff":"+x"}"#;
        for (to, first) in [(None, "GET /v1/databases/d/diff"), (Some("e f"), "GET /v1/databases/d/diff?to=e+f")] {
            let (found, seen) = tokio::join!(client.database_diff("d", to), server.answer(200, diff));
            assert_eq!((found.unwrap().diff.as_str(), seen.first.as_str()), ("+x", first));
        }
    }

    #[tokio::test]
    async fn backups_are_shown_taken_cloned_and_verified() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config()).unwrap();
        let time = Some("2026-01-31T23:59:59Z".to_owned());
        let ask = CloneDatabase { target_time: time.clone(), ..CloneDatabase::default() };
        let (made, seen) = tokio::join!(client.clone_database("d", &ask), server.answer(202, SHOWN));
        assert_eq!((made.unwrap().id.as_str(), seen.first.as_str()), ("d", "POST /v1/databases/d/clone"));
        assert_eq!(seen.body, r#"{"target_time":"2026-01-31T23:59:59Z"}"#);
        let held = r#"{"items":[],"count":0,"archive":{"health":"off","pending_segments":0,"pending_bytes":0}}"#;
        let (found, seen) = tokio::join!(client.database_backups("d"), server.answer(200, held));
        assert_eq!((found.unwrap().window, seen.first.as_str()), (None, "GET /v1/databases/d/backups"));
        let taken = r#"{"name":"b1","taken_at":"2026-01-31T00:00:00.000Z","size_bytes":7}"#;
        let (taken, seen) = tokio::join!(client.back_up_database("d"), server.answer(201, taken));
        assert_eq!((taken.unwrap().size_bytes, seen.first.as_str()), (7, "POST /v1/databases/d/backups"));
        let begun = r#"{"status":"running","started_at":"2026-01-31T00:00:00.000Z"}"#;
        let ask = VerifyBackup { target_time: time };
        let (begun, seen) = tokio::join!(client.verify_database_backup("d", &ask), server.answer(202, begun));
        assert_eq!(
            (begun.unwrap().status.as_str(), seen.first.as_str()),
            ("running", "POST /v1/databases/d/verify-backup")
        );
        assert_eq!(seen.body, r#"{"target_time":"2026-01-31T23:59:59Z"}"#);
    }

    #[tokio::test]
    async fn a_database_without_credentials_has_no_connection() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config()).unwrap();
        let body = r#"{"error":"the database is not ready yet","code":"database.not_ready"}"#;
        let (refused, seen) = tokio::join!(client.database_connection("d"), server.answer(503, body));
        let refused = refused.unwrap_err();
        assert_eq!((refused.status(), refused.code()), (Some(503), Some("database.not_ready")));
        assert_eq!(seen.first, "GET /v1/databases/d/connection");
    }
}
