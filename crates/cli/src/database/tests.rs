//! Arguments and texts of the commands for databases, and the wait for a new one.

use std::{
    ffi::OsStr,
    io::{self, BufRead, BufReader, Write},
    net::TcpListener,
    process::Command,
    time::Duration,
};

use clap::Parser;
use pandastack_client::{
    Client, Config, SqlRows,
    wire::{DatabaseStats, ManagedDatabase},
};

use super::{
    DatabaseCommand, delete, get, list, logs, psql, query, stats,
    wait::{ReadyPace, ReadyState, state, until_ready},
};
use crate::{ClientCommand, GlobalArgs, exit::exit_code_of};

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: ClientCommand,
}

fn parse(line: &str) -> Result<DatabaseCommand, clap::Error> {
    match Line::try_parse_from(["x"].into_iter().chain(line.split(' ')))?.command {
        ClientCommand::Db(command) => Ok(command),
        other => panic!("{line}: {other:?}"),
    }
}

fn database(id: &str, status: &str) -> ManagedDatabase {
    ManagedDatabase {
        id: id.into(),
        status: status.into(),
        template: "postgres-16".into(),
        label: Some("app".into()),
        size: Some("1g".into()),
        always_on: Some(false),
        created_at: Some(1_700_000_000),
        ..ManagedDatabase::default()
    }
}

fn running() -> ManagedDatabase {
    ManagedDatabase {
        host: Some("ab.db.localhost".into()),
        port: Some(5433),
        database: Some("pandastack".into()),
        username: Some("panda".into()),
        password: Some("s3cret".into()),
        connection_url: Some("postgres://x".into()),
        ..database("ab", "running")
    }
}

#[test]
fn the_group_has_three_names_and_the_usual_short_ones() {
    for line in ["db list", "database ls", "databases list --watch=5", "db ls -q", "db list --json", "db list -o yaml"]
    {
        assert!(matches!(parse(line).unwrap(), DatabaseCommand::List(_)), "{line}");
    }
    for line in ["db rm a b", "db delete a --yes", "db delete -y a --json"] {
        assert!(matches!(parse(line).unwrap(), DatabaseCommand::Delete(_)), "{line}");
    }
    for bad in ["db delete", "db always-on a", "db always-on a maybe", "db logs a --lines 0", "db query a"] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn only_what_was_chosen_is_asked_for() {
    let ask = |line: &str| match parse(line).unwrap() {
        DatabaseCommand::Create(args) => serde_json::to_string(&args.ask()).unwrap(),
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(ask("db create"), "{}");
    assert_eq!(
        ask("db create --label app --size 4g --always-on --no-wait"),
        r#"{"label":"app","size":"4g","always_on":true}"#
    );
    assert!(parse("db create --size 2g").unwrap_err().to_string().contains("16g"));
}

#[test]
fn psql_gets_what_follows_the_dashes() {
    let arguments = |line: &str| match parse(line).unwrap() {
        DatabaseCommand::Psql(args) => args.arguments,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(arguments("db psql app -- -c select"), ["-c", "select"]);
    assert_eq!(arguments("db psql -- --csv"), ["--csv"]);
    assert!(arguments("db psql").is_empty());
}

#[test]
fn psql_gets_the_password_by_a_variable() {
    let value = |mode: Option<&str>, name: &str| {
        let mut command = Command::new("psql");
        psql::prepare(&mut command, &running(), mode).unwrap();
        assert_eq!(command.get_args().count(), 0);
        let found = command.get_envs().find(|(variable, _)| *variable == OsStr::new(name));
        found.and_then(|(_, value)| value).map(|value| value.to_string_lossy().into_owned())
    };
    let given = ["PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD"].map(|name| value(None, name).unwrap());
    assert_eq!(given, ["ab.db.localhost", "5433", "pandastack", "panda", "s3cret"]);
    assert_eq!(value(None, "PGHOSTADDR").as_deref(), Some("127.0.0.1"));
    assert_eq!(value(None, "PGSERVICE"), None);
    for (asked, used) in [(None, "require"), (Some("disable"), "require"), (Some("verify-full"), "verify-full")] {
        assert_eq!(value(asked, "PGSSLMODE").as_deref(), Some(used));
    }
    let error = psql::prepare(&mut Command::new("psql"), &database("ab", "provisioning"), None).unwrap_err();
    assert!(error.to_string().contains("pandastack db get ab"), "{error}");
}

#[test]
fn a_missing_psql_has_a_next_step() {
    let error = psql::not_started(&io::ErrorKind::NotFound.into()).to_string();
    assert!(error.contains("apt install postgresql-client") && error.contains("db query"), "{error}");
}

#[test]
fn the_only_database_needs_no_name() {
    assert_eq!(psql::only(&[database("ab", "running")]).unwrap(), "ab");
    let code = |databases: &[ManagedDatabase]| format!("{:?}", exit_code_of(&psql::only(databases).unwrap_err()));
    assert!(code(&[]).contains('3'));
    assert!(code(&[database("ab", "running"), database("cd", "running")]).contains('2'));
}

#[test]
fn a_table_has_no_password() {
    let facts = get::facts(&running()).concat().join(" ");
    assert!(facts.contains("label app status running") && facts.contains("host ab.db.localhost port 5433"), "{facts}");
    assert!(!facts.contains("s3cret") && !facts.contains("postgres://"), "{facts}");
    let row = list::row(&database("ab", "hibernated"));
    assert_eq!(row, ["ab", "app", "hibernated", "1g", "no", "-", "2023-11-14T22:13:20.000Z"]);
}

#[test]
fn figures_have_units() {
    let stats = DatabaseStats {
        db_size_bytes: 8 << 20,
        connections: 3,
        max_connections: 100,
        cache_hit_ratio: 0.995,
        disk_size_bytes: 1 << 30,
        disk_used_bytes: 512 << 20,
        disk_used_pct: 50.0,
        ..DatabaseStats::default()
    };
    let shown = stats::facts(stats).into_iter().map(|row| row.join(": ")).collect::<Vec<_>>();
    for line in
        ["size: 8.0 MiB", "connections: 3 of 100", "cache hits: 99.5 %", "disk: 512.0 MiB of 1024.0 MiB used (50.0 %)"]
    {
        assert!(shown.iter().any(|row| row == line), "{line}: {shown:?}");
    }
}

#[test]
fn rows_are_shown_as_text() {
    let rows: SqlRows = serde_json::from_str(
        r#"{"columns":[{"name":"a","type":"TEXT"},{"name":"b","type":"JSONB"}],
            "rows":[["x\ny",null],["",{"n": 1.10}]],"count":2,"duration_ms":4}"#,
    )
    .unwrap();
    assert_eq!(query::cells(&rows), [["x\\ny", "NULL"], ["", "{\"n\": 1.10}"]]);
    assert_eq!(query::summary(&rows), "2 rows in 4 ms");
    let none = SqlRows { columns: Vec::new(), rows: Vec::new(), count: 0, duration_ms: 1 };
    assert_eq!(query::summary(&none), "done in 1 ms");
}

#[test]
fn a_deletion_names_what_is_lost() {
    let (one, two) = (database("ab", "running"), database("cd", "hibernated"));
    assert_eq!(delete::lost(&[&one]), "This deletes this database with all its data:\n  ab  app 1g running");
    let both = delete::lost(&[&one, &two]);
    assert!(both.starts_with("This deletes these 2 databases") && both.ends_with("cd  app 1g hibernated"), "{both}");
}

#[test]
fn fewer_lines_than_the_server_sends() {
    assert_eq!(logs::last_lines("a\nb\nc\n", 2).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(logs::last_lines("a\n", 2).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn a_database_is_ready_when_it_has_credentials() {
    assert_eq!(state(&database("ab", "provisioning")), ReadyState::Pending);
    assert_eq!(state(&running()), ReadyState::Ready);
    assert_eq!(state(&ManagedDatabase { status: "hibernated".into(), ..running() }), ReadyState::Ready);
    let failed = ManagedDatabase { error: Some("no room".into()), ..database("ab", "failed") };
    assert_eq!(state(&failed), ReadyState::Lost("no room".into()));
}

/// Answers one request after the other, each on a connection of its own.
fn client_of(answers: Vec<ManagedDatabase>) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            lines.map(Result::unwrap).find(String::is_empty).unwrap();
            let body = serde_json::to_string(&answer).unwrap();
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
    });
    Client::new(Config::load_with(|_| None, None).unwrap().with_url(&url).unwrap()).unwrap()
}

async fn waited(answers: Vec<ManagedDatabase>, longest: Duration) -> anyhow::Result<ManagedDatabase> {
    let pace = ReadyPace { pause: Duration::from_millis(1), longest };
    until_ready(&client_of(answers), database("ab", "provisioning"), pace).await
}

#[tokio::test]
async fn a_new_database_is_waited_for() {
    let longest = Duration::from_secs(60);
    let ready = waited(vec![database("ab", "provisioning"), running()], longest).await.unwrap();
    assert_eq!(ready.connection_url.as_deref(), Some("postgres://x"));
    let failed = ManagedDatabase { error: Some("no room".into()), ..database("ab", "failed") };
    let error = waited(vec![failed], longest).await.unwrap_err().to_string();
    assert_eq!(error, "database ab failed: no room; delete it with: pandastack db delete ab");
    let error = waited(Vec::new(), Duration::ZERO).await.unwrap_err();
    assert_eq!(format!("{:?}", exit_code_of(&error)), format!("{:?}", std::process::ExitCode::from(124)));
}
