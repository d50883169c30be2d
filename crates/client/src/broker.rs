//! SQL over HTTP. Requests go to the server of the client, with the broker token of the database
//! instead of the client's credential.

use std::time::Duration;

use pandastack_kit::Secret;
use reqwest::{Method, RequestBuilder, Response};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{Client, ClientError};

/// How long a statement and a transaction may run if the caller does not say, as in the server.
const QUERY_DEFAULT: Duration = Duration::from_secs(30);
const TRANSACTION_DEFAULT: Duration = Duration::from_secs(60);
/// Additional time for the wake of a database, and for the transfer of its answer.
const WAKE_MAX: Duration = Duration::from_secs(90);

/// The broker of one database.
pub struct DatabaseBroker<'a> {
    client: &'a Client,
    id: &'a str,
    token: Secret<String>,
}

/// One statement. `$1` in its text is the first parameter.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SqlStatement {
    pub sql: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<serde_json::Value>,
}

/// A statement for one database of the server.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SqlQuery {
    pub database: String,
    #[serde(flatten)]
    pub statement: SqlStatement,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The server has a limit of its own; this can only lower it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rows: Option<u32>,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqlColumn {
    pub name: String,
    /// Type in upper case, such as `INT4`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Rows of a query. Values are kept as JSON text, so that numbers keep their digits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SqlRows {
    pub columns: Vec<SqlColumn>,
    pub rows: Vec<Vec<Box<RawValue>>>,
    pub count: u64,
    pub duration_ms: u64,
}

/// The effect of a statement without rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqlAffected {
    pub rows_affected: u64,
    pub duration_ms: u64,
}

/// The result of one statement of a transaction: rows, or how many were changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StatementResult {
    pub index: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<SqlColumn>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<Vec<Vec<Box<RawValue>>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_affected: Option<u64>,
}

/// The results of a transaction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SqlResults {
    pub results: Vec<StatementResult>,
    pub duration_ms: u64,
}

/// Versions and extensions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerOverview {
    pub postgres_version: String,
    pub extensions: Vec<String>,
    pub broker_version: String,
}

/// Whether PostgreSQL answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerHealth {
    pub status: String,
    pub postgres: String,
}

/// A database inside the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerDatabase {
    pub name: String,
    pub encoding: String,
    pub collate: String,
    pub size_bytes: u64,
}

#[derive(Deserialize)]
struct BrokerDatabases {
    databases: Vec<BrokerDatabase>,
}

#[derive(Serialize)]
struct SqlTransaction<'a> {
    database: &'a str,
    statements: &'a [SqlStatement],
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
}

/// What a refusal of PostgreSQL has besides the fields of every refusal.
#[derive(Deserialize)]
struct SqlHint {
    hint: Option<String>,
}

impl Client {
    /// Returns the broker of a database. Its token is in the connection of the database.
    pub fn database_broker<'a>(&'a self, id: &'a str, token: Secret<String>) -> DatabaseBroker<'a> {
        DatabaseBroker { client: self, id, token }
    }
}

impl DatabaseBroker<'_> {
    /// Asks whether PostgreSQL answers. Does not wake the database.
    pub async fn health(&self) -> Result<BrokerHealth, ClientError> {
        self.read(self.request(Method::GET, &["health"])?.timeout(WAKE_MAX)).await
    }

    /// Shows versions and extensions.
    pub async fn overview(&self) -> Result<BrokerOverview, ClientError> {
        self.read(self.request(Method::GET, &["info"])?.timeout(WAKE_MAX)).await
    }

    /// Runs one statement and returns its rows. Wakes the database.
    pub async fn query(&self, query: &SqlQuery) -> Result<SqlRows, ClientError> {
        let longest = timeout(query.timeout_ms, QUERY_DEFAULT);
        self.read(self.request(Method::POST, &["query"])?.timeout(longest).json(query)).await
    }

    /// Runs statements whose rows do not matter. Without parameters there may be several.
    pub async fn exec(&self, query: &SqlQuery) -> Result<SqlAffected, ClientError> {
        let longest = timeout(query.timeout_ms, QUERY_DEFAULT);
        self.read(self.request(Method::POST, &["exec"])?.timeout(longest).json(query)).await
    }

    /// Runs all statements or none.
    pub async fn transaction(
        &self,
        database: &str,
        statements: &[SqlStatement],
        timeout_ms: Option<u64>,
    ) -> Result<SqlResults, ClientError> {
        let longest = timeout(timeout_ms, TRANSACTION_DEFAULT);
        let ask = SqlTransaction { database, statements, timeout_ms };
        self.read(self.request(Method::POST, &["transaction"])?.timeout(longest).json(&ask)).await
    }

    /// Lists the databases inside the server.
    pub async fn databases(&self) -> Result<Vec<BrokerDatabase>, ClientError> {
        let list: BrokerDatabases = self.read(self.request(Method::GET, &["databases"])?.timeout(WAKE_MAX)).await?;
        Ok(list.databases)
    }

    /// Creates a database inside the server.
    pub async fn create_database(&self, name: &str) -> Result<(), ClientError> {
        let ask = serde_json::json!({ "name": name });
        self.send(self.request(Method::POST, &["databases"])?.timeout(WAKE_MAX).json(&ask)).await.map(drop)
    }

    /// Drops a database inside the server.
    pub async fn drop_database(&self, name: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, &["databases", name])?.timeout(WAKE_MAX)).await.map(drop)
    }

    fn request(&self, method: Method, path: &[&str]) -> Result<RequestBuilder, ClientError> {
        let path = [&["databases", self.id, "proxy", "v1"], path].concat();
        self.client.token_request(method, &path, &self.token)
    }

    async fn read<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        let url = || self.client.url().to_owned();
        let body = self.send(request).await?.bytes().await;
        let body = body.map_err(|cause| ClientError::sending(self.client.url(), cause))?;
        serde_json::from_slice(&body).map_err(|error| ClientError::Protocol { url: url(), what: error.to_string() })
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|cause| ClientError::sending(self.client.url(), cause))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.unwrap_or_default();
        let mut refused = ClientError::refused(status, &body);
        if let ClientError::Refused { text, .. } = &mut refused
            && let Ok(SqlHint { hint: Some(hint) }) = serde_json::from_slice(&body)
        {
            text.push_str("; hint: ");
            text.push_str(&hint);
        }
        Err(refused)
    }
}

/// How long the client waits for work that may take so long. The server has a limit of its own.
fn timeout(asked_ms: Option<u64>, default: Duration) -> Duration {
    asked_ms.map_or(default, Duration::from_millis).saturating_add(WAKE_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::stand_in::StandIn;

    fn query(sql: &str) -> SqlQuery {
        let statement = SqlStatement { sql: sql.into(), params: vec![json!("7")] };
        SqlQuery { database: "pandastack".into(), statement, ..SqlQuery::default() }
    }

    #[tokio::test]
    async fn a_query_has_the_token_of_the_database_and_not_the_key() {
        let server = StandIn::listen().await;
        let config = server.config().with_key("pk_key".to_owned()).with_org("org-7").unwrap();
        let client = Client::new(config).unwrap();
        let broker = client.database_broker("d", Secret::new("token".to_owned()));
        let body = r#"{"columns":[{"name":"n","type":"JSONB"}],"rows":[[1.10],[null]],"count":2,"duration_ms":3}"#;
        let ask = query("select $1");
        let (rows, seen) = tokio::join!(broker.query(&ask), server.answer(200, body));
        let rows = rows.unwrap();
        assert_eq!((rows.columns[0].kind.as_str(), rows.rows[0][0].get(), rows.count), ("JSONB", "1.10", 2));
        assert_eq!(serde_json::to_string(&rows).unwrap(), body);
        assert_eq!(seen.first, "POST /v1/databases/d/proxy/v1/query");
        assert!(seen.head.contains("authorization: bearer token"), "{}", seen.head);
        assert!(!seen.head.contains("pk_key") && !seen.head.contains("org-7"), "{}", seen.head);
        assert_eq!(seen.body, r#"{"database":"pandastack","sql":"select $1","params":["7"]}"#);
    }

    #[tokio::test]
    async fn an_error_of_postgres_has_its_hint_and_code() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config()).unwrap();
        let broker = client.database_broker("d", Secret::new("token".to_owned()));
        let body = r#"{"error":"no such column","code":"42703","detail":"d","hint":"Perhaps \"a\"."}"#;
        let ask = query("x");
        let (refused, _) = tokio::join!(broker.exec(&ask), server.answer(400, body));
        let refused = refused.unwrap_err();
        assert_eq!((refused.status(), refused.code()), (Some(400), Some("42703")));
        assert_eq!(refused.to_string(), "no such column: d; hint: Perhaps \"a\".");
    }

    #[tokio::test]
    async fn transactions_and_databases_have_their_own_addresses() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config()).unwrap();
        let broker = client.database_broker("d", Secret::new("token".to_owned()));
        let statements = [SqlStatement { sql: "a".into(), params: Vec::new() }];
        let body = r#"{"results":[{"index":0,"rows_affected":4}],"duration_ms":1}"#;
        let (done, seen) = tokio::join!(broker.transaction("x", &statements, Some(5)), server.answer(200, body));
        assert_eq!(done.unwrap().results[0].rows_affected, Some(4));
        assert_eq!(seen.first, "POST /v1/databases/d/proxy/v1/transaction");
        assert_eq!(seen.body, r#"{"database":"x","statements":[{"sql":"a"}],"timeout_ms":5}"#);
        let body = r#"{"databases":[{"name":"x","encoding":"UTF8","collate":"C","size_bytes":9}]}"#;
        let (found, seen) = tokio::join!(broker.databases(), server.answer(200, body));
        assert_eq!((found.unwrap()[0].size_bytes, seen.first.as_str()), (9, "GET /v1/databases/d/proxy/v1/databases"));
        let (done, seen) = tokio::join!(broker.drop_database("x y"), server.answer(204, ""));
        done.unwrap();
        assert_eq!(seen.first, "DELETE /v1/databases/d/proxy/v1/databases/x%20y");
    }
}
