//! What both drivers promise, on a real SQLite file and a real PostgreSQL server.

use std::time::Duration;

use crate::{
    Database, DatabaseAddress, PoolSettings, Schema, SnapshotError, Value, WriteLock, put_back, query, query_as,
    query_scalar, server::PostgresServer,
};
use tempfile::TempDir;

const SCHEMA: Schema = Schema {
    steps: &[
        "CREATE TABLE parent (id TEXT PRIMARY KEY, number BIGINT NOT NULL);
         CREATE TABLE item (id TEXT PRIMARY KEY, parent TEXT REFERENCES parent (id), number BIGINT, flag BOOLEAN,
             bytes BLOB, share DOUBLE PRECISION);",
        "ALTER TABLE item ADD COLUMN note TEXT;",
    ],
};

type Item = (String, Option<i64>, Option<bool>, Option<Vec<u8>>, Option<f64>, Option<String>);

fn settings() -> PoolSettings {
    let long = Duration::from_secs(20);
    PoolSettings { connections_max: 4, busy_max: long, statement_max: long }
}

async fn in_file(folder: &TempDir) -> Database {
    let address = DatabaseAddress::File(folder.path().join("test.db"));
    let database = Database::open(&address, settings()).await.unwrap();
    SCHEMA.migrate(&database, 1).await.unwrap();
    database
}

async fn on_server(server: &PostgresServer) -> Database {
    let database = Database::open(&DatabaseAddress::Server(server.url("postgres")), settings()).await.unwrap();
    SCHEMA.migrate(&database, 1).await.unwrap();
    database
}

/// Runs a test on both databases.
async fn on_both(test: impl AsyncFn(Database)) {
    let (folder, server) = (tempfile::tempdir().unwrap(), PostgresServer::start().unwrap());
    for database in [in_file(&folder).await, on_server(&server).await] {
        test(database.clone()).await;
        database.close().await;
    }
}

async fn add(database: &Database, id: &str, number: Option<i64>) {
    query("INSERT INTO item (id, number) VALUES (?, ?)").bind(id).bind(number).execute(database).await.unwrap();
}

#[tokio::test]
async fn every_kind_of_value_comes_back_as_it_was_and_so_does_null() {
    on_both(async |database| {
        let sql = "INSERT INTO item (id, number, flag, bytes, share, note) VALUES (?, ?, ?, ?, ?, ?)";
        let full: [Value<'_>; 6] =
            ["full".into(), i64::MIN.into(), true.into(), vec![0, 255].into(), 0.1.into(), "ä 'q' ?".into()];
        let empty: [Value<'_>; 6] = [
            "empty".into(),
            None::<i64>.into(),
            None::<bool>.into(),
            None::<Vec<u8>>.into(),
            None::<f64>.into(),
            None::<String>.into(),
        ];
        for row in [full, empty] {
            let done = row.into_iter().fold(query(sql), crate::Query::bind).execute(&database).await;
            assert_eq!(done.unwrap(), 1);
        }
        let rows: Vec<Item> = query_as("SELECT id, number, flag, bytes, share, note FROM item ORDER BY id DESC")
            .fetch_all(&database)
            .await
            .unwrap();
        let text = Some("ä 'q' ?".to_owned());
        assert_eq!(rows[0], ("full".into(), Some(i64::MIN), Some(true), Some(vec![0, 255]), Some(0.1), text));
        assert_eq!(rows[1], ("empty".into(), None, None, None, None, None));
        let none = query("SELECT id FROM item WHERE id = ?").bind("other").fetch_optional(&database).await.unwrap();
        assert!(none.is_none());
    })
    .await;
}

#[tokio::test]
async fn a_duplicate_is_told_from_other_failures() {
    on_both(async |database| {
        add(&database, "one", None).await;
        let insert = query("INSERT INTO item (id) VALUES (?)").bind("one");
        let error = insert.execute(&database).await.unwrap_err();
        assert!(error.is_duplicate() && !error.is_unavailable() && !error.is_full(), "{error}");
        let error = query("SELECT nothing FROM nowhere").execute(&database).await.unwrap_err();
        assert!(!error.is_duplicate() && !error.is_unavailable(), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_text_with_a_null_character_does_not_fail() {
    on_both(async |database| {
        query("INSERT INTO item (id, note) VALUES ('a', ?)").bind("x\0y").execute(&database).await.unwrap();
        let note: String = query_scalar("SELECT note FROM item").fetch_one(&database).await.unwrap();
        assert!(note == "x\0y" || note == "x\u{fffd}y", "{note:?}");
    })
    .await;
}

#[tokio::test]
async fn writers_with_the_same_lock_run_one_after_another() {
    on_both(async |database| {
        add(&database, "counter", Some(0)).await;
        let count = async || {
            for _ in 0..25 {
                let mut tx = database.begin_write(WriteLock::on("item", "counter")).await.unwrap();
                let now: i64 = query_scalar("SELECT number FROM item").fetch_one(&mut tx).await.unwrap();
                query("UPDATE item SET number = ?").bind(now + 1).execute(&mut tx).await.unwrap();
                tx.commit().await.unwrap();
            }
        };
        tokio::join!(count(), count(), count(), count());
        let number: i64 = query_scalar("SELECT number FROM item").fetch_one(&database).await.unwrap();
        assert_eq!(number, 100);
    })
    .await;
}

#[tokio::test]
async fn a_dropped_transaction_leaves_nothing() {
    on_both(async |database| {
        let mut tx = database.begin_write(WriteLock::on("item", "x")).await.unwrap();
        query("INSERT INTO item (id) VALUES ('gone')").execute(&mut tx).await.unwrap();
        drop(tx);
        let mut tx = database.begin_write(WriteLock::on("item", "x")).await.unwrap();
        let count: i64 = query_scalar("SELECT COUNT(*) FROM item").fetch_one(&mut tx).await.unwrap();
        assert_eq!(count, 0);
    })
    .await;
}

#[tokio::test]
async fn several_servers_may_migrate_at_once() {
    let server = PostgresServer::start().unwrap();
    let address = DatabaseAddress::Server(server.url("postgres"));
    let migrate = async || {
        let database = Database::open(&address, settings()).await.unwrap();
        SCHEMA.migrate(&database, 1).await.unwrap();
        database.close().await;
    };
    tokio::join!(migrate(), migrate(), migrate());
    let database = Database::open(&address, settings()).await.unwrap();
    let steps: i64 = query_scalar("SELECT COUNT(*) FROM schema_version").fetch_one(&database).await.unwrap();
    assert_eq!(steps, SCHEMA.version());
}

#[tokio::test]
async fn a_server_that_comes_back_is_used_again() {
    let mut server = PostgresServer::start().unwrap();
    let database = on_server(&server).await;
    add(&database, "kept", Some(1)).await;
    let mut tx = database.begin_write(WriteLock::on("item", "x")).await.unwrap();
    query("INSERT INTO item (id) VALUES ('lost')").execute(&mut tx).await.unwrap();
    server.restart().unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    let ids: Vec<String> = query_scalar("SELECT id FROM item").fetch_all(&database).await.unwrap();
    assert_eq!(ids, ["kept"]);
}

#[tokio::test]
async fn all_rows_move_from_a_file_to_a_server_and_only_to_an_empty_one() {
    let (folder, server) = (tempfile::tempdir().unwrap(), PostgresServer::start().unwrap());
    let (from, to) = (in_file(&folder).await, on_server(&server).await);
    query("INSERT INTO parent VALUES ('p', 1)").execute(&from).await.unwrap();
    let mut tx = from.begin().await.unwrap();
    for number in 0..1200 {
        query("INSERT INTO item (id, parent, number, flag, bytes, share, note) VALUES (?, 'p', ?, ?, ?, ?, ?)")
            .bind(format!("i{number}"))
            .bind((number % 3 != 0).then_some(number))
            .bind(number % 2 == 0)
            .bind(vec![0_u8, 1, 255])
            .bind(0.1 * number as f64)
            .bind(if number == 7 { "a\0b" } else { "ä" })
            .execute(&mut tx)
            .await
            .unwrap();
    }
    tx.commit().await.unwrap();
    let report = from.copy_into(&to).await.unwrap();
    assert_eq!(report.tables, [("parent".to_owned(), 1), ("item".to_owned(), 1200)]);
    let all = "SELECT id, number, flag, bytes, share, note FROM item WHERE id <> 'i7' ORDER BY id";
    let mut rows: Vec<Vec<Item>> = Vec::new();
    for database in [&from, &to] {
        let mut read: Vec<Item> = query_as(all).fetch_all(database).await.unwrap();
        read.sort_by(|left, right| left.0.cmp(&right.0));
        rows.push(read);
    }
    assert_eq!(rows[0], rows[1]);
    let again = from.copy_into(&to).await.unwrap_err().to_string();
    assert!(again.contains("parent has rows already"), "{again}");
    let back = to.copy_into(&from).await.unwrap_err().to_string();
    assert!(back.contains("must be an SQLite database"), "{back}");
}

#[tokio::test]
async fn a_backup_is_taken_between_writes_and_put_back_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (database, backup) = (in_file(&folder).await, folder.path().join("backup"));
    add(&database, "before", None).await;
    let writes = async {
        for number in 0..100 {
            add(&database, &format!("later{number}"), None).await;
        }
    };
    let (taken, ()) = tokio::join!(database.snapshot_to(&backup), writes);
    taken.unwrap();
    assert!(matches!(database.snapshot_to(&backup).await, Err(SnapshotError::Exists(_))), "never over another file");
    database.close().await;
    let path = folder.path().join("test.db");
    put_back(&backup, &path, SCHEMA).await.unwrap();
    let database = in_file(&folder).await;
    let ids: Vec<String> = query_scalar("SELECT id FROM item").fetch_all(&database).await.unwrap();
    assert!(ids.contains(&"before".to_owned()) && ids.len() <= 101, "{ids:?}");
    database.close().await;
}

#[tokio::test]
async fn what_is_no_backup_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let database = in_file(&folder).await;
    add(&database, "kept", None).await;
    let backup = folder.path().join("backup");
    database.snapshot_to(&backup).await.unwrap();
    database.close().await;
    let path = folder.path().join("test.db");
    let mut torn = std::fs::read(&backup).unwrap();
    torn.truncate(torn.len() / 2);
    let (half, text) = (folder.path().join("half"), folder.path().join("text"));
    std::fs::write(&half, torn).unwrap();
    std::fs::write(&text, "hello").unwrap();
    for bad in [&half, &text, &folder.path().join("missing")] {
        let refused = put_back(bad, &path, SCHEMA).await.unwrap_err();
        assert!(matches!(refused, SnapshotError::Damaged { .. }), "{refused}");
    }
    let older = Schema { steps: &SCHEMA.steps[..1] };
    assert!(matches!(put_back(&backup, &path, older).await, Err(SnapshotError::TooNew { found: 2, known: 1 })));
    let database = in_file(&folder).await;
    let ids: Vec<String> = query_scalar("SELECT id FROM item").fetch_all(&database).await.unwrap();
    assert_eq!(ids, ["kept"]);
}

#[tokio::test]
async fn a_caller_that_stops_waiting_for_a_lock_leaves_no_transaction_behind() {
    on_both(async |database| {
        for round in 0..20 {
            let held = database.begin_write(WriteLock::on("thing", "a")).await.unwrap();
            let waiting = database.begin_write(WriteLock::on("thing", "a"));
            let pause = Duration::from_millis(round % 5);
            assert!(tokio::time::timeout(pause, waiting).await.is_err());
            held.commit().await.unwrap();
        }
        // More than there are connections: each of them is free, and what is written is committed.
        for number in 0..8 {
            let mut tx = database.begin_write(WriteLock::on("thing", "a")).await.unwrap();
            let sql = "INSERT INTO item (id, number) VALUES (?, ?)";
            query(sql).bind(format!("in {number}")).bind(number).execute(&mut tx).await.unwrap();
            tx.commit().await.unwrap();
            add(&database, &format!("out {number}"), None).await;
        }
        let count: i64 = query_scalar("SELECT COUNT(*) FROM item").fetch_one(&database).await.unwrap();
        assert_eq!(count, 16);
    })
    .await;
}
