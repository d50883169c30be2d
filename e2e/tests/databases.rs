//! Managed databases on real machines: created from a golden layer, reached by TLS and by HTTP,
//! asleep and awake, branched while they work. One server and one golden layer serve all parts,
//! because an empty cluster takes long to make without KVM.

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::Duration,
};

use pandastack_testbed::{DataFolder, TestServer, wait_for};
use reqwest::{Client, Method};
use serde_json::{Value, json};

/// Time limit for what needs a golden layer.
const GOLDEN_PATIENCE: Duration = Duration::from_secs(300);

/// A server with databases, and what its clients need.
struct DatabaseBed {
    server: TestServer,
    http: Client,
    authority: PathBuf,
    _data: DataFolder,
}

impl DatabaseBed {
    fn start() -> Self {
        let data = DataFolder::with_templates().unwrap();
        data.add_template("postgres-16").unwrap();
        let server = TestServer::start(data.path(), &["--standby", "0"]).unwrap();
        let authority = data.path().join("database-ca/ca.pem");
        Self { server, http: Client::new(), authority, _data: data }
    }

    async fn send(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let request = self.http.request(method, format!("{}{path}", self.server.url));
        let answer = request.bearer_auth(&self.server.key).json(&body).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap_or_default())
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send(Method::GET, path, json!({})).await
    }

    /// Waits until a database runs, and returns it.
    async fn running(&self, id: &str) -> Value {
        let path = format!("/v1/databases/{id}");
        let ready = async || {
            let (_, shown) = self.get(&path).await;
            assert_ne!(shown["status"], "failed", "{shown}\n{}", self.server.said());
            (shown["status"] == "running").then_some(shown)
        };
        wait_for("the database runs", GOLDEN_PATIENCE, ready).await
    }

    /// Runs psql through the proxy. The certificate must be right.
    fn psql(&self, database: &Value, options: &str, sql: &str) -> Output {
        self.psql_command(database, options, sql).output().unwrap()
    }

    fn psql_command(&self, database: &Value, options: &str, sql: &str) -> Command {
        let field = |name: &str| database[name].as_str().unwrap().to_owned();
        let (host, user, name) = (field("host"), field("username"), field("database"));
        let place = format!(
            "host={host} hostaddr=127.0.0.1 port={} user={user} dbname={name} sslmode=verify-full sslrootcert={} \
             {options}",
            database["port"],
            self.authority.display()
        );
        let mut psql = Command::new("psql");
        psql.env("PGPASSWORD", field("password")).stdin(Stdio::null());
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &place, "-c", sql]);
        psql
    }

    fn answer(&self, database: &Value, sql: &str) -> String {
        let output = self.psql(database, "", sql);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{sql}: {complaint}\n{}", self.server.said());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn refusal(&self, database: &Value, sql: &str) -> String {
        let output = self.psql(database, "", sql);
        assert!(!output.status.success(), "{sql} was accepted");
        String::from_utf8(output.stderr).unwrap()
    }

    async fn query(&self, database: &Value, body: Value) -> (u16, Value) {
        let url = format!("{}/v1/query", database["broker_url"].as_str().unwrap());
        let token = database["broker_token"].as_str().unwrap();
        let answer = self.http.post(url).bearer_auth(token).json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }
}

#[tokio::test]
async fn a_database_lives_sleeps_branches_and_ends() {
    let bed = DatabaseBed::start();
    let (status, made) = bed.send(Method::POST, "/v1/databases", json!({"label": "orders"})).await;
    assert_eq!((status, &made["status"]), (202, &json!("provisioning")), "{made}");
    assert_eq!(made.get("connection_url"), None, "{made}");
    let id = made["id"].as_str().unwrap().to_owned();
    let database = bed.running(&id).await;
    assert!(!database["connection_url"].as_str().unwrap().contains('?'));
    let path = format!("/v1/databases/{id}");

    // By TLS, through the pooler and past it.
    bed.answer(&database, "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 1000)");
    assert_eq!(bed.answer(&database, "SELECT sum(n) FROM t"), "500500");
    let extensions = "SELECT string_agg(extname, ' ' ORDER BY extname) FROM pg_extension WHERE extname <> 'plpgsql'";
    assert_eq!(
        bed.answer(&database, extensions),
        "hstore ltree pg_stat_statements pg_trgm pgcrypto unaccent uuid-ossp vector"
    );
    let session = bed.psql(&database, "options=-cpandastack.session=on", "LISTEN news");
    assert!(session.status.success(), "{}", String::from_utf8_lossy(&session.stderr));
    assert!(bed.answer(&database, "SHOW data_checksums").contains("on"));
    let other = json!({"password": "wrong-wrong-wrong-wrong"});
    let mut wrong = database.clone();
    wrong["password"] = other["password"].clone();
    assert!(bed.refusal(&wrong, "SELECT 1").contains("authentication failed"), "{}", bed.refusal(&wrong, "SELECT 1"));
    let mut unknown = database.clone();
    unknown["host"] = json!(format!("{}.db.localhost", uuid()));
    assert!(bed.refusal(&unknown, "SELECT 1").contains("does not exist"), "{}", bed.refusal(&unknown, "SELECT 1"));

    // By HTTP.
    let (status, rows) = bed
        .query(&database, json!({"database": "pandastack", "sql": "SELECT n FROM t WHERE n = $1", "params": [7]}))
        .await;
    assert_eq!((status, &rows["rows"]), (200, &json!([[7]])), "{rows}");
    let mut stranger = database.clone();
    stranger["broker_token"] = json!("pds_pg_wrong");
    assert_eq!(bed.query(&stranger, json!({"database": "pandastack", "sql": "SELECT 1"})).await.0, 401);

    // Asleep, and woken by the first connection.
    assert_eq!(bed.send(Method::POST, &format!("/v1/sandboxes/{id}/hibernate"), json!({})).await.0, 200);
    assert_eq!(bed.get(&path).await.1["status"], "hibernated");
    assert_eq!(bed.answer(&database, "SELECT count(*) FROM t"), "1000");
    assert_eq!(bed.get(&path).await.1["status"], "running");

    // A branch has the data of one moment and goes its own way, with credentials of its own.
    let (status, branch) = bed.send(Method::POST, &format!("{path}/branches"), json!({"label": "try"})).await;
    assert_eq!((status, &branch["branched_from"]), (202, &json!(id)), "{branch}");
    let branch = bed.running(branch["id"].as_str().unwrap()).await;
    assert_ne!(branch["password"], database["password"]);
    bed.answer(&branch, "DELETE FROM t WHERE n > 10");
    bed.answer(&database, "INSERT INTO t VALUES (5000)");
    assert_eq!(bed.answer(&branch, "SELECT count(*), max(n) FROM t"), "10|10");
    assert_eq!(bed.answer(&database, "SELECT count(*), max(n) FROM t"), "1001|5000");
    let mut crossed = branch.clone();
    crossed["password"] = database["password"].clone();
    assert!(bed.refusal(&crossed, "SELECT 1").contains("authentication failed"));

    // What an owner looks at.
    let (status, stats) = bed.get(&format!("{path}/stats")).await;
    assert!(status == 200 && stats["db_size_bytes"].as_u64().unwrap() > 1_000_000, "{stats}");
    let (status, logs) = bed.get(&format!("{path}/logs?lines=50")).await;
    assert!(
        status == 200 && !logs["logs"].as_str().unwrap().contains(database["password"].as_str().unwrap()),
        "{logs}"
    );
    let (_, list) = bed.get("/v1/databases").await;
    assert_eq!((&list["count"], list["items"][0].get("password")), (&json!(2), None), "{list}");

    // New credentials end the old ones.
    let (status, renewed) = bed.send(Method::POST, &format!("{path}/reset-credentials"), json!({})).await;
    assert_eq!(status, 200, "{renewed}");
    assert!(bed.refusal(&database, "SELECT 1").contains("authentication failed"));
    assert_eq!(bed.answer(&renewed, "SELECT count(*) FROM t"), "1001");

    // Only the database can be deleted, and nothing of it stays.
    let (status, refused) = bed.send(Method::DELETE, &format!("/v1/sandboxes/{id}"), json!({})).await;
    assert_eq!((status, &refused["code"]), (409, &json!("sandbox.of_database")));
    for gone in [&id, branch["id"].as_str().unwrap()] {
        assert_eq!(bed.send(Method::DELETE, &format!("/v1/databases/{gone}"), json!({})).await.0, 204);
        assert_eq!(bed.get(&format!("/v1/databases/{gone}")).await.0, 404);
    }
    assert_eq!(bed.get("/v1/volumes").await.1, json!([]));
    let (_, audit) = bed.get("/v1/host/audit").await;
    assert_eq!((&audit["leaks"], &audit["machines"]), (&json!([]), &json!(0)), "{audit}");
    assert!(!bed.server.said().contains(database["password"].as_str().unwrap()), "a password is in the log");
}

/// The id of a database that does not exist.
fn uuid() -> String {
    pandastack_model::SandboxId::random().to_string()
}
