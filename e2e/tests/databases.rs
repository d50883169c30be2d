//! Managed databases on real machines: created from a golden layer, reached by TLS and by HTTP,
//! asleep and awake, branched while they work. One server serves all parts.

mod backups;
mod drivers;
mod hostile;
mod idle;
mod kills;
mod own;
mod own_changes;
mod quiet;
mod restored;
mod strangers;
mod wire;

use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::Duration,
};

use pandastack_e2e::published;
use pandastack_model::SandboxId;
use pandastack_testbed::{DataFolder, TestServer, wait_for};
use reqwest::{Client, Method};
use serde_json::{Value, json};

const ARGUMENTS: [&str; 3] = ["--standby", "0", "--webhook-allow-private"];
/// Time limit for what needs a golden layer.
const GOLDEN_PATIENCE: Duration = Duration::from_secs(300);

/// Usage is counted every minute. A busy machine may take longer.
const METERING_PATIENCE: Duration = Duration::from_secs(240);

/// A server with databases, and what its clients need.
struct DatabaseBed {
    server: TestServer,
    http: Client,
    authority: PathBuf,
    data_dir: PathBuf,
    /// Kept until the test ends, unless the caller has it.
    _folder: Option<DataFolder>,
}

impl DatabaseBed {
    fn start() -> Self {
        let folder = DataFolder::with_databases().unwrap();
        Self::over(folder.path().to_owned(), Some(folder))
    }

    /// Starts a server over a data folder, which the caller may keep.
    fn over(data_dir: PathBuf, folder: Option<DataFolder>) -> Self {
        let server = TestServer::start_with(&data_dir, |command| {
            // A secret must not be in any line.
            command.arg("--no-config").args(ARGUMENTS).env("PANDASTACK_LOG", "warn,pandastack=debug");
        });
        let server = server.unwrap();
        let authority = data_dir.join("database-ca/ca.pem");
        Self { server, http: Client::new(), authority, data_dir, _folder: folder }
    }

    async fn send(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        self.ask(method, path, &self.server.key, body).await
    }

    /// As `send`, with another key or token. Asks no faster than it may.
    async fn ask(&self, method: Method, path: &str, token: &str, body: Value) -> (u16, Value) {
        wait_for("an answer", GOLDEN_PATIENCE, async || {
            let request = self.http.request(method.clone(), format!("{}{path}", self.server.url));
            let answer = request.bearer_auth(token).json(&body).send().await.unwrap();
            let status = answer.status().as_u16();
            let said: Value = answer.json().await.unwrap_or_default();
            (said["code"] != "rate.limited").then_some((status, said))
        })
        .await
    }

    /// The text of an answer.
    async fn text(&self, path: &str) -> String {
        let request = self.http.get(format!("{}{path}", self.server.url)).bearer_auth(&self.server.key);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200, "{path}");
        answer.text().await.unwrap()
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
    quiet::the_server_is_prepared(&bed).await;
    let receiver = strangers::listen_to_events(&bed).await;
    let (status, made) = bed.send(Method::POST, "/v1/databases", json!({"label": "orders"})).await;
    assert_eq!((status, &made["status"]), (202, &json!("provisioning")), "{made}");
    assert_eq!(made.get("connection_url"), None, "{made}");
    let database = bed.running(made["id"].as_str().unwrap()).await;
    assert!(!database["connection_url"].as_str().unwrap().contains('?'));

    clients_connect(&bed, &database);
    hostile::clients_that_are_wrong_are_told(&bed, &database).await;
    queries_come_by_http(&bed, &database).await;
    a_sleeper_wakes_by_the_first_connection(&bed, &database).await;
    let branch = a_branch_goes_its_own_way(&bed, &database).await;
    its_owner_looks_at_it(&bed, &database).await;
    quiet::machines_of_databases_stay_out_of_sight(&bed, &[&database, &branch]).await;
    let stranger = strangers::other_tenant(&bed).await;
    strangers::no_route_leads_to_it(&bed, &database, &branch, &stranger).await;
    strangers::its_log_is_its_own(&bed, &database, &branch, &stranger).await;
    drivers::drivers_work_as_they_are(&bed, &database);
    own::our_own_clients_work(&bed, &database, &stranger).await;
    let renewed = new_credentials_end_the_old_ones(&bed, &database).await;
    strangers::secrets_stay_inside(&bed, &[&database, &branch, &renewed], &receiver).await;
    own_changes::our_clients_change_databases(&bed).await;
    let published = published_clients_create_one(&bed).await;
    a_volume_with_other_files_is_refused(&bed).await;
    its_time_and_space_are_metered(&bed, &database).await;
    quiet::no_database_reaches_for_its_host(&bed, &[&database, &branch]).await;
    quiet::no_user_waited_for_a_golden_layer(&bed).await;
    nothing_stays(&bed, &[&database, &branch, &published]).await;
}

/// By TLS, through the pooler and past it.
fn clients_connect(bed: &DatabaseBed, database: &Value) {
    bed.answer(database, "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 1000)");
    assert_eq!(bed.answer(database, "SELECT sum(n) FROM t"), "500500");
    let extensions = "SELECT string_agg(extname, ' ' ORDER BY extname) FROM pg_extension WHERE extname <> 'plpgsql'";
    let expected = "hstore ltree pg_stat_statements pg_trgm pgcrypto unaccent uuid-ossp vector";
    assert_eq!(bed.answer(database, extensions), expected);
    assert_eq!(bed.answer(database, "SELECT '[1,2,3]'::vector <-> '[1,2,4]'"), "1");
    assert_eq!(bed.answer(database, "SHOW data_checksums"), "on");
    // A quarter of the machine: 1 GiB, of which the kernel keeps some for itself.
    let buffers = bed.answer(database, "SELECT setting::int / 128 FROM pg_settings WHERE name = 'shared_buffers'");
    assert!((230..=256).contains(&buffers.parse::<u32>().unwrap()), "{buffers} MB");
    let session = bed.psql(database, "options=-cpandastack.session=on", "LISTEN news");
    assert!(session.status.success(), "{}", String::from_utf8_lossy(&session.stderr));
    let wrong = with(database, "password", "wrong-wrong-wrong-wrong");
    let refusal = bed.refusal(&wrong, "SELECT 1");
    assert!(refusal.contains("authentication failed"), "{refusal}");
    let unknown = with(database, "host", &format!("{}.db.localhost", SandboxId::random()));
    let refusal = bed.refusal(&unknown, "SELECT 1");
    assert!(refusal.contains("does not exist"), "{refusal}");
    let superuser = with(database, "username", "postgres");
    assert!(bed.refusal(&superuser, "SELECT 1").contains("failed"));
}

async fn queries_come_by_http(bed: &DatabaseBed, database: &Value) {
    let ask = json!({"database": "pandastack", "sql": "SELECT n FROM t WHERE n = $1", "params": [7]});
    let (status, rows) = bed.query(database, ask).await;
    assert_eq!((status, &rows["rows"]), (200, &json!([[7]])), "{rows}");
    let ask = async |route: &str, body: Value| {
        let url = format!("{}/v1/{route}", database["broker_url"].as_str().unwrap());
        let request = bed.http.post(url).bearer_auth(database["broker_token"].as_str().unwrap()).json(&body);
        request.send().await.unwrap().json::<Value>().await.unwrap()
    };
    let change = json!({"database": "pandastack", "sql": "UPDATE t SET n = n WHERE n <= $1", "params": [3]});
    assert_eq!(ask("exec", change).await["rows_affected"], 3);
    let statements = json!([{"sql": "SELECT '\\xff00'::bytea, ARRAY[1.50, NULL]::numeric[]"}, {"sql": "DELETE FROM t WHERE n > $1",
        "params": [5000]}]);
    let done = ask("transaction", json!({"database": "pandastack", "statements": statements})).await;
    assert_eq!(done["results"][0]["rows"], json!([["\\xff00", ["1.50", null]]]), "{done}");
    assert_eq!(done["results"][1]["rows_affected"], 0, "{done}");
    a_database_in_use_is_dropped(bed, database).await;
    let stranger = with(database, "broker_token", "pds_pg_wrong");
    assert_eq!(bed.query(&stranger, json!({"database": "pandastack", "sql": "SELECT 1"})).await.0, 401);
    let (status, refused) = bed.query(database, json!({"sql": "SELECT 1"})).await;
    assert_eq!((status, &refused["error"]), (400, &json!("database required")));
    let slow = json!({"database": "pandastack", "sql": "SELECT pg_sleep(600)", "timeout_ms": 200});
    let (status, late) = bed.query(database, slow).await;
    assert_eq!((status, &late["code"]), (408, &json!("57014")), "{late}");
    let health = format!("{}/v1/health", database["broker_url"].as_str().unwrap());
    let answer = bed.http.get(health).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
}

/// The pooler keeps connections to a database that a client used.
async fn a_database_in_use_is_dropped(bed: &DatabaseBed, database: &Value) {
    let url = format!("{}/v1/databases", database["broker_url"].as_str().unwrap());
    let token = database["broker_token"].as_str().unwrap();
    let made = bed.http.post(&url).bearer_auth(token).json(&json!({"name": "other"})).send().await.unwrap();
    assert_eq!(made.status().as_u16(), 201, "{}", made.text().await.unwrap());
    assert_eq!(bed.answer(&with(database, "database", "other"), "SELECT current_database()"), "other");
    let dropped = bed.http.delete(format!("{url}/other")).bearer_auth(token).send().await.unwrap();
    assert_eq!(dropped.status().as_u16(), 204, "{}", dropped.text().await.unwrap());
}

/// By TLS and by HTTP.
async fn a_sleeper_wakes_by_the_first_connection(bed: &DatabaseBed, database: &Value) {
    let (id, path) = (database["id"].as_str().unwrap(), path(database));
    let sleeps = async || {
        assert_eq!(bed.send(Method::POST, &format!("/v1/sandboxes/{id}/hibernate"), json!({})).await.0, 200);
        assert_eq!(bed.get(&path).await.1["status"], "hibernated");
    };
    sleeps().await;
    assert_eq!(bed.answer(database, "SELECT count(*) FROM t"), "1000");
    assert_eq!(bed.get(&path).await.1["status"], "running");
    sleeps().await;
    let ask = json!({"database": "pandastack", "sql": "SELECT count(*) FROM t"});
    let (status, rows) = bed.query(database, ask).await;
    assert_eq!((status, &rows["rows"]), (200, &json!([[1000]])), "{rows}\n{}", bed.server.said());
    assert_eq!(bed.get(&path).await.1["status"], "running");
}

/// A branch has the data of one moment, credentials of its own and a warm cache.
async fn a_branch_goes_its_own_way(bed: &DatabaseBed, database: &Value) -> Value {
    bed.answer(database, "SELECT count(*) FROM t");
    let open = OpenTransaction::begin(bed, database, "INSERT INTO t VALUES (7000)");
    let branches = format!("{}/branches", path(database));
    let (status, branch) = bed.send(Method::POST, &branches, json!({"label": "try"})).await;
    assert_eq!((status, &branch["branched_from"]), (202, &database["id"]), "{branch}");
    let branch = bed.running(branch["id"].as_str().unwrap()).await;
    assert_ne!(branch["password"], database["password"]);
    let plan = bed.answer(&branch, "EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off) SELECT count(*) FROM t");
    assert!(plan.contains("shared hit") && !plan.contains("read="), "{plan}");
    bed.answer(&branch, "DELETE FROM t WHERE n > 10");
    bed.answer(database, "INSERT INTO t VALUES (5000)");
    assert_eq!(bed.answer(&branch, "SELECT count(*), max(n) FROM t"), "10|10");
    assert_eq!(bed.answer(database, "SELECT count(*), max(n) FROM t"), "1001|5000");
    open.commit();
    assert_eq!(bed.answer(database, "DELETE FROM t WHERE n = 7000 RETURNING n"), "7000");
    let crossed = with(&branch, "password", database["password"].as_str().unwrap());
    assert!(bed.refusal(&crossed, "SELECT 1").contains("authentication failed"));
    branch
}

/// A client of the source with a transaction that is open while a branch is made.
struct OpenTransaction {
    psql: std::process::Child,
    printed: BufReader<std::process::ChildStdout>,
}

impl OpenTransaction {
    fn begin(bed: &DatabaseBed, database: &Value, statement: &str) -> Self {
        let mut psql = bed.psql_command(database, "options=-cpandastack.session=on", &format!("BEGIN; {statement}"));
        let psql = psql.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut psql = psql.spawn().unwrap();
        let printed = BufReader::new(psql.stdout.take().unwrap());
        let mut open = Self { psql, printed };
        assert_eq!(open.run("\\echo open"), "open\n");
        open
    }

    fn run(&mut self, command: &str) -> String {
        writeln!(self.psql.stdin.as_mut().unwrap(), "{command}").unwrap();
        let mut line = String::new();
        self.printed.read_line(&mut line).unwrap();
        line
    }

    fn commit(mut self) {
        assert_eq!(self.run("COMMIT; SELECT 'committed';"), "committed\n");
        drop(self.psql.stdin.take());
        assert!(self.psql.wait().unwrap().success());
    }
}

async fn its_owner_looks_at_it(bed: &DatabaseBed, database: &Value) {
    let (status, stats) = bed.get(&format!("{}/stats", path(database))).await;
    assert!(status == 200 && stats["db_size_bytes"].as_u64().unwrap() > 1_000_000, "{stats}");
    let (status, logs) = bed.get(&format!("{}/logs?lines=50", path(database))).await;
    assert!(status == 200 && !logs["logs"].as_str().unwrap().contains(database["password"].as_str().unwrap()));
    let (_, list) = bed.get("/v1/databases").await;
    assert_eq!((&list["count"], list["items"][0].get("password")), (&json!(2), None), "{list}");
}

/// The image makes no cluster among somebody's files.
async fn a_volume_with_other_files_is_refused(bed: &DatabaseBed) {
    assert_eq!(bed.send(Method::POST, "/v1/volumes", json!({"name": "mine", "size_mb": 512})).await.0, 201);
    let volumes = json!([{"name": "mine", "mount_path": "/var/lib/pandastack/pg"}]);
    let spec = json!({"template": "postgres-16", "volumes": volumes});
    let (status, machine) = bed.send(Method::POST, "/v1/sandboxes", spec).await;
    assert_eq!(status, 201, "{machine}");
    bed.exec(&machine, "touch /var/lib/pandastack/pg/mine").await;
    for (call, reason) in [
        ("echo 'SCRAM-SHA-256$4096:YQ==$YQ==:YQ==' | /usr/lib/pandastack/database init", "is not blank"),
        ("/usr/lib/pandastack/database start", "has no cluster"),
    ] {
        let done = bed.exec(&machine, call).await;
        assert_eq!(done["exit_code"], 3, "{call}: {done}");
        assert!(done["stderr"].as_str().unwrap().contains(reason), "{call}: {done}");
    }
    assert_eq!(bed.exec(&machine, "ls /var/lib/pandastack/pg | grep -v lost+found").await["stdout"], "mine\n");
    assert_eq!(
        bed.send(Method::DELETE, &format!("/v1/sandboxes/{}", machine["id"].as_str().unwrap()), json!({})).await.0,
        204
    );
    assert_eq!(bed.send(Method::DELETE, "/v1/volumes/mine", json!({})).await.0, 204);
}

/// Volumes are counted by the hour, so the storage of this row is that of the root disk.
async fn its_time_and_space_are_metered(bed: &DatabaseBed, database: &Value) {
    let counted = async || {
        let (_, report) = bed.get("/v1/usage?by=sandbox").await;
        let row = report["rows"].as_array().unwrap().iter().find(|row| row["key"] == database["id"]).cloned();
        row.filter(|row| row["vcpu_seconds"].as_f64().unwrap() > 0.0)
    };
    let row = wait_for("usage is counted", METERING_PATIENCE, counted).await;
    assert_eq!(row["label"], "postgres-16", "{row}");
    assert!(row["storage_gib_seconds"].as_f64().unwrap() > 0.0, "{row}");
}

async fn new_credentials_end_the_old_ones(bed: &DatabaseBed, database: &Value) -> Value {
    let (status, renewed) = bed.send(Method::POST, &format!("{}/reset-credentials", path(database)), json!({})).await;
    assert_eq!(status, 200, "{renewed}");
    assert!(bed.refusal(database, "SELECT 1").contains("authentication failed"));
    assert_eq!(bed.answer(&renewed, "SELECT count(*) FROM t"), "1001");
    renewed
}

/// The published Python client creates a database, and psql opens its URL with `?sslmode=require`.
async fn published_clients_create_one(bed: &DatabaseBed) -> Value {
    let program = "
import os
from pandastack import Client
client = Client(api_url=os.environ['URL'], api_key=os.environ['KEY'])
made = client.databases.create(label='published')
assert made['status'] == 'running' and made['label'] == 'published', made
assert client.databases.get(made['id'])['connection_url'] == made['connection_url']
assert [one['id'] for one in client.databases.list()][0] == made['id']
assert client.databases.connection(made['id'])['broker_token'] == made['broker_token']
assert client.databases.update(made['id'], always_on=True)['always_on'] is True
assert client.databases.wake(made['id'])['status'] in ('running', 'waking')
renewed = client.databases.reset_credentials(made['id'])
assert renewed['password'] != made['password']
print(made['id'])
print(renewed['connection_url'])
";
    let mut python = Command::new(published::python());
    python.env("KEY", &bed.server.key).env("URL", &bed.server.url).args(["-c", program]);
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    let [id, url] = printed.lines().collect::<Vec<_>>()[..] else { panic!("{printed}") };
    let mut psql = Command::new("psql");
    psql.env("PGHOSTADDR", "127.0.0.1").stdin(Stdio::null());
    let opened = psql.args(["-XAtc", "SELECT 1", "-d", &format!("{url}?sslmode=require")]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&opened.stdout), "1\n", "{}", String::from_utf8_lossy(&opened.stderr));
    json!({"id": id})
}

/// Only the database can be deleted, and nothing of it stays.
async fn nothing_stays(bed: &DatabaseBed, databases: &[&Value]) {
    for database in databases {
        let sandbox = format!("/v1/sandboxes/{}", database["id"].as_str().unwrap());
        let (status, refused) = bed.send(Method::DELETE, &sandbox, json!({})).await;
        assert_eq!((status, &refused["code"]), (409, &json!("sandbox.of_database")));
        // A copy that is no branch would have the password of its source.
        for copy in ["fork", "fork-tree", "snapshots"] {
            let (status, refused) = bed.send(Method::POST, &format!("{sandbox}/{copy}"), json!({})).await;
            assert_eq!((status, &refused["code"]), (409, &json!("sandbox.of_database")), "{copy}: {refused}");
        }
        assert_eq!(bed.send(Method::DELETE, &path(database), json!({})).await.0, 204);
        assert_eq!(bed.get(&path(database)).await.0, 404);
    }
    assert_eq!(bed.get("/v1/volumes").await.1, json!([]));
    let (_, audit) = bed.get("/v1/host/audit").await;
    assert_eq!((&audit["leaks"], &audit["machines"]), (&json!([]), &json!(0)), "{audit}");
}

fn path(database: &Value) -> String {
    format!("/v1/databases/{}", database["id"].as_str().unwrap())
}

/// The same database with another value of a field.
fn with(database: &Value, field: &str, value: &str) -> Value {
    let mut other = database.clone();
    other[field] = json!(value);
    other
}
