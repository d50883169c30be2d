//! PostgreSQL drivers and tools, unmodified, against one database: by the URL of the API, with the
//! certificate verified, through the pooler and past it. Each is a program of `clients` that stops
//! at its first failure.

use std::{
    ffi::OsStr,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_e2e::{PATIENCE, RELEASE_FOREIGN_VOLUMES, drivers, published};
use pandastack_testbed::block_until;
use serde_json::Value;
use tempfile::NamedTempFile;

use super::DatabaseBed;

/// Lets a program find the database by its name: not every system knows names under `localhost`.
const WITH_HOSTS: &str = r#"mount --bind "$HOSTS" /etc/hosts && exec "$@""#;

/// A database, and what its clients need.
struct DriverBed<'a> {
    bed: &'a DatabaseBed,
    database: &'a Value,
    /// The host's names, and that of the database.
    hosts: NamedTempFile,
}

/// A program and its words.
struct DriverProgram {
    name: &'static str,
    words: Vec<PathBuf>,
}

impl DriverProgram {
    fn new<const N: usize>(name: &'static str, words: [impl AsRef<OsStr>; N]) -> Self {
        Self { name, words: words.iter().map(PathBuf::from).collect() }
    }
}

impl<'a> DriverBed<'a> {
    fn of(bed: &'a DatabaseBed, database: &'a Value) -> Self {
        let mut hosts = NamedTempFile::new().unwrap();
        hosts.write_all(&std::fs::read("/etc/hosts").unwrap()).unwrap();
        writeln!(hosts, "\n127.0.0.1 {}", database["host"].as_str().unwrap()).unwrap();
        Self { bed, database, hosts }
    }

    /// The URL of a client that reads PostgreSQL's own options.
    fn verified_url(&self) -> String {
        let url = self.database["connection_url"].as_str().unwrap();
        format!("{url}?sslmode=verify-full&sslrootcert={}", self.bed.authority.display())
    }

    /// Runs a program to its end.
    fn run(&self, program: &DriverProgram) {
        let begin = Instant::now();
        let mut command = Command::new("unshare");
        let script = format!("{RELEASE_FOREIGN_VOLUMES}{WITH_HOSTS}");
        command.args(["--mount", "sh", "-c", &script, "sh"]).args(&program.words);
        command
            .env("HOSTS", self.hosts.path())
            .env("DATABASE_CA", &self.bed.authority)
            .env("KEPT", &self.bed.authority);
        command.env("DATABASE_URL", self.database["connection_url"].as_str().unwrap());
        command.env("PANDASTACK_API", &self.bed.server.url).env("PANDASTACK_API_KEY", &self.bed.server.key);
        // A proxy must not be used for a server on loopback.
        let output = command.env("NO_PROXY", "*").stdin(Stdio::null()).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}: {out}{err}\nserver: {}", program.name, self.bed.server.said());
        eprintln!("{}: {:.1} s", program.name, begin.elapsed().as_secs_f32());
    }

    /// Runs programs at the same time: none has a table of another.
    fn run_together(&self, programs: &[DriverProgram]) {
        std::thread::scope(|scope| {
            for program in programs {
                scope.spawn(|| self.run(program));
            }
        });
    }
}

/// Runs the drivers that are quick to install.
pub fn drivers_work_as_they_are(bed: &DatabaseBed, database: &Value) {
    let (python, node) = (drivers::python(), drivers::node());
    let bed = DriverBed::of(bed, database);
    let interpreter = python.join("venv/bin/python");
    bed.run_together(&[
        DriverProgram::new("psycopg", [&interpreter, &python.join("checks_psycopg.py")]),
        DriverProgram::new("asyncpg", [&interpreter, &python.join("checks_asyncpg.py")]),
        DriverProgram::new("node-postgres", [&published::node(), &node.join("checks_node_postgres.mjs")]),
        DriverProgram::new("postgres.js", [&published::node(), &node.join("checks_postgres_js.mjs")]),
        DriverProgram::new("Drizzle", [&published::node(), &node.join("checks_drizzle.mjs")]),
    ]);
    psql_is_interrupted(&bed);
    rows_are_benched(&bed, "prepared");
    published_clients_manage_databases(&bed);
}

/// `Ctrl-C` sends a cancel request, without TLS in older versions.
fn psql_is_interrupted(bed: &DriverBed<'_>) {
    let mut command = Command::new("psql");
    command.args(["-X", "-d", &bed.verified_url(), "-c", "/* psql */ SELECT pg_sleep(600)"]);
    command.env("PGHOSTADDR", "127.0.0.1").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let psql = command.spawn().unwrap();
    // PostgreSQL ignores a cancel that comes before its query.
    let running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '/* psql */%' AND state = 'active'";
    let runs = || (bed.bed.answer(bed.database, running) != "0").then_some(());
    block_until("the query runs", PATIENCE, runs);
    kill(Pid::from_raw(i32::try_from(psql.id()).unwrap()), Signal::SIGINT).unwrap();
    let said = String::from_utf8(psql.wait_with_output().unwrap().stderr).unwrap();
    assert!(said.contains("canceling statement due to user request"), "{said}");
}

/// pgbench with a small script of ours and ten clients.
fn rows_are_benched(bed: &DriverBed<'_>, protocol: &str) {
    bed.bed.answer(bed.database, "CREATE TABLE IF NOT EXISTS pgbench_rows (n int PRIMARY KEY, last int)");
    let script = drivers::sources().join("pgbench/rows.sql");
    let load = ["-n", "-c", "10", "-j", "2", "-t", "5", "-M", protocol, "-f"].map(Path::new);
    let mut words = vec![PathBuf::from("pgbench")];
    words.extend(load.map(PathBuf::from));
    words.extend([script, PathBuf::from(bed.verified_url())]);
    bed.run(&DriverProgram { name: "pgbench", words });
}

/// What the published TypeScript client and its command do with databases of their own.
fn published_clients_manage_databases(bed: &DriverBed<'_>) {
    let (folder, modules) = (tempfile::tempdir().unwrap(), published::typescript().join("node_modules"));
    // Modules are searched beside the script that imports them.
    let place = folder.path().join("checks.mjs");
    std::fs::copy(drivers::sources().join("published/checks_sdk.mjs"), &place).unwrap();
    std::os::unix::fs::symlink(&modules, folder.path().join("node_modules")).unwrap();
    let commands = drivers::sources().join("published/checks_cli.py");
    let (cli, node) = (modules.join("@pandastack/sdk/dist/cli.js"), published::node());
    let setting = |name: &str, value: &Path| format!("{name}={}", value.display());
    let (cli, node_setting) = (setting("CLI", &cli), setting("NODE", &node));
    let words = ["env", "PGHOSTADDR=127.0.0.1", &cli, &node_setting, "python3", commands.to_str().unwrap()];
    bed.run_together(&[
        DriverProgram::new("published TypeScript client", [&node, &place]),
        DriverProgram::new("published command line", words),
    ]);
}

/// Drivers that take long to install, or need a Java.
mod deep {
    use reqwest::Method;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn more_drivers_work_as_they_are() {
        let (prisma, rust) = (drivers::prisma(), drivers::rust());
        let bed = DatabaseBed::start();
        let (status, made) = bed.send(Method::POST, "/v1/databases", json!({"label": "drivers"})).await;
        assert_eq!(status, 202, "{made}");
        let database = bed.running(made["id"].as_str().unwrap()).await;
        let bed = DriverBed::of(&bed, &database);
        let program = drivers::sources().join("jdbc/ChecksJdbc.java");
        let java = ["java", "-cp", "/usr/share/java/postgresql.jar", program.to_str().unwrap()];
        bed.run_together(&[
            DriverProgram::new("sqlx", [rust.join("checks_sqlx")]),
            DriverProgram::new("tokio-postgres", [rust.join("checks_tokio_postgres")]),
            DriverProgram::new("Prisma", [&published::node(), &prisma.join("checks.mjs")]),
            DriverProgram::new("JDBC", java),
        ]);
        for protocol in ["simple", "extended"] {
            rows_are_benched(&bed, protocol);
        }
        let url = bed.verified_url();
        bed.run(&DriverProgram::new("pgbench, tables", ["pgbench", "-i", "-s", "1", &url]));
        let load = ["pgbench", "-n", "-c", "8", "-j", "2", "-t", "20", "-M", "prepared", &url];
        bed.run(&DriverProgram::new("pgbench", load));
    }
}
