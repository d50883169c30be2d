//! Managed databases. `broker` sends SQL to them.

use pandastack_wire_public::{
    BranchDatabase, ChangeDatabase, CreateDatabase, DatabaseConnection, DatabaseLogs, DatabaseStats, DatabaseWake,
    ManagedDatabase, ManagedDatabaseList,
};
use reqwest::Method;

use crate::{Client, ClientError, client::ANSWER_MAX};

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
