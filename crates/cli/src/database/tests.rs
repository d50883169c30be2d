//! Arguments and texts of the commands for databases, and the wait for a new one.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    process::Command,
    time::Duration,
};

use clap::Parser;
use pandastack_client::{
    Client, Config, SqlRows,
    wire::{
        BackupDrill, DatabaseArchive, DatabaseBackup, DatabaseBackups, DatabaseStats, ManagedDatabase, RestoreWindow,
    },
};

use super::{
    DatabaseCommand, backups, delete, diff, get, list, logs, psql, query, reset, stats, tree,
    verify_backup::{self, DrillWait, until_ended},
    wait::{ReadyState, ReadyWait, state, until_ready},
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
        DatabaseCommand::Psql(args) => args.all_arguments(),
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(arguments("db psql app --via-sandbox -c a --command b -- --csv"), ["-c", "a", "-c", "b", "--csv"]);
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
    // One that restarts keeps its credentials.
    assert_eq!(state(&ManagedDatabase { status: "provisioning".into(), ..running() }), ReadyState::Pending);
    let failed = ManagedDatabase { error: Some("no room".into()), ..database("ab", "failed") };
    assert_eq!(state(&failed), ReadyState::Lost("no room".into()));
}

/// Answers one request after the other, each on a connection of its own.
fn client_of<T: serde::Serialize + Send + 'static>(answers: Vec<T>) -> Client {
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
    let wait = ReadyWait { pause: Duration::from_millis(1), longest, ..ReadyWait::started("creating") };
    until_ready(&client_of(answers), database("ab", "provisioning"), wait, |_| {}).await
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

#[test]
fn a_clone_asks_for_what_was_chosen() {
    let ask = |words: &[&str]| {
        let line = Line::try_parse_from(["x", "db", "clone", "app"].iter().chain(words)).unwrap();
        match line.command {
            ClientCommand::Db(DatabaseCommand::Clone(args)) => args.ask(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(serde_json::to_string(&ask(&[])).unwrap(), "{}");
    let whole = ask(&["--label", "l", "--at", "2026-01-31T23:59:59Z", "--size", "4g", "--no-wait"]);
    assert_eq!(
        serde_json::to_string(&whole).unwrap(),
        r#"{"label":"l","target_time":"2026-01-31T23:59:59Z","size":"4g"}"#
    );
    for words in [["--at", "-10m"], ["--target-time", "10 minutes ago"]] {
        assert!(ask(&words).target_time.unwrap().ends_with('Z'), "{words:?}");
    }
    for bad in ["db clone", "db clone a --at yesterday", "db clone a --size 2g", "db reset", "db diff"] {
        assert!(parse(bad).is_err(), "{bad}");
    }
    let at = |line: &str| match parse(line).unwrap() {
        DatabaseCommand::VerifyBackup(args) => args.at,
        other => panic!("{line}: {other:?}"),
    };
    assert!(at("db verify-backup a").is_none() && at("db verify-backup a --at -1h --no-wait").is_some());
    assert!(matches!(parse("db branches").unwrap(), DatabaseCommand::Tree(_)));
}

#[test]
fn a_diff_is_shown_in_colours_and_cannot_command_the_terminal() {
    let lines = ["--- a", "+++ b", "@@ -1 +1 @@", "-x", "+y", " z\tz\u{1b}[31m"];
    let plain = lines.map(|line| diff::shown(line, false));
    assert_eq!(plain, ["--- a", "+++ b", "@@ -1 +1 @@", "-x", "+y", " z\tz[31m"]);
    let coloured = lines.map(|line| diff::shown(line, true));
    assert_eq!(coloured[3..], ["\u{1b}[31m-x\u{1b}[0m", "\u{1b}[32m+y\u{1b}[0m", " z\tz[31m"]);
}

#[test]
fn a_reset_names_what_is_lost() {
    let branch = ManagedDatabase { branched_from: Some("cd".into()), ..database("ab", "running") };
    assert_eq!(reset::lost(&branch).unwrap(), "This replaces all data of branch ab (app) with that of its parent cd.");
    assert!(reset::lost(&database("ab", "running")).unwrap_err().to_string().contains("is no branch"));
}

#[test]
fn databases_are_drawn_under_their_sources() {
    let from = |id: &str, branched: Option<&str>, cloned: Option<&str>| ManagedDatabase {
        label: None,
        branched_from: branched.map(Into::into),
        cloned_from: cloned.map(Into::into),
        ..database(id, "running")
    };
    let all = vec![
        database("a", "running"),
        from("b", Some("a"), None),
        ManagedDatabase { status: "failed".into(), ..from("c", None, Some("a")) },
        from("d", Some("b"), None),
        from("e", Some("gone"), None),
    ];
    let expected = "\
● a  app  running
├── ● b  running
│   └── ● d  running  ← this one
└── ✗ c  failed  (clone)
● e  running
";
    assert_eq!(tree::picture(&all, Some("d"), false), expected);
    let ids = |id: &str| tree::family(all.clone(), id).into_iter().map(|one| one.id).collect::<String>();
    assert_eq!((ids("d").as_str(), ids("a").as_str(), ids("e").as_str()), ("abcd", "abcd", "e"));
    let circle = vec![from("a", Some("b"), None), from("b", Some("a"), None)];
    assert_eq!(tree::picture(&circle, None, false), "");
    assert!(!tree::family(circle, "a").is_empty());
}

#[test]
fn backups_show_window_archive_and_drill() {
    let held = DatabaseBackups {
        items: vec![DatabaseBackup { name: "b1".into(), taken_at: "t1".into(), size_bytes: 3 << 20 }],
        count: 1,
        window: Some(RestoreWindow { earliest: "t1".into(), latest: "t2".into() }),
        archive: DatabaseArchive {
            health: "behind".into(),
            pending_segments: 2,
            pending_bytes: 32 << 20,
            error: Some("no route".into()),
            ..DatabaseArchive::default()
        },
        drill: Some(drill("failed", "t3")),
    };
    assert_eq!(backups::row(&held.items[0]), ["b1", "t1", "3.0 MiB"]);
    let shown = backups::facts(&held).into_iter().map(|row| row.join(": ")).collect::<Vec<_>>();
    let expected = [
        "restorable from: t1",
        "restorable to: t2",
        "archive: behind",
        "not archived yet: 2 segments, 32.0 MiB",
        "archive error: no route",
        "last drill: failed at t3: bad page",
    ];
    assert_eq!(shown, expected);
    let none = DatabaseBackups {
        archive: DatabaseArchive { health: "off".into(), ..Default::default() },
        ..Default::default()
    };
    assert_eq!(backups::facts(&none), [["archive", "off"]]);
}

fn drill(status: &str, started_at: &str) -> BackupDrill {
    let error = (status == "failed").then(|| "bad page".to_owned());
    BackupDrill { status: status.into(), started_at: started_at.into(), error, ..BackupDrill::default() }
}

fn drilled(drill: Option<BackupDrill>) -> DatabaseBackups {
    DatabaseBackups { drill, ..DatabaseBackups::default() }
}

#[tokio::test]
async fn a_drill_is_waited_for() {
    let wait = DrillWait { pause: Duration::from_millis(1), longest: Duration::from_secs(60) };
    let begun = drill("running", "2026-01-02");
    let passed = BackupDrill { relations_checked: Some(40), ..drill("passed", "2026-01-02") };
    let older = drilled(Some(drill("failed", "2026-01-01")));
    let answers = vec![older, drilled(None), drilled(Some(begun.clone())), drilled(Some(passed.clone()))];
    let ended = until_ended(&client_of(answers), "ab", begun.clone(), wait).await.unwrap();
    assert_eq!(ended, passed);
    assert!(verify_backup::facts(&ended).contains(&vec!["checked".to_owned(), "40 tables and indexes".to_owned()]));
    let at_once = DrillWait { longest: Duration::ZERO, ..wait };
    let late = until_ended(&client_of(Vec::<DatabaseBackups>::new()), "ab", begun, at_once).await.unwrap_err();
    assert_eq!(format!("{:?}", exit_code_of(&late)), format!("{:?}", std::process::ExitCode::from(124)));
}
