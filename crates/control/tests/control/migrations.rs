//! Databases of every earlier version, with a row in every table, are brought up to date.

use std::sync::Arc;

use pandastack_control::SCHEMA;
use pandastack_database::{Database, DatabaseRow, PoolSettings, Query, Schema, query, query_as, query_built};
use pandastack_model::SandboxId;
use pandastack_wire_fleet::stub::StubHost;
use serde_json::json;

use crate::{
    backend,
    rig::{Rig, long},
};

/// Every text in the rows. Rows may then refer to each other.
const TEXT: &str = "default";

#[tokio::test]
async fn rows_of_every_version_are_there_after_all_later_steps() {
    for version in 1..SCHEMA.steps.len() {
        let folder = tempfile::tempdir().unwrap();
        let address = backend::place(folder.path()).await.database;
        let settings = PoolSettings { connections_max: 2, busy_max: long(), statement_max: long() };
        let database = Database::open(&address, settings).await.unwrap();
        let old = Schema { steps: &SCHEMA.steps[..version] };
        old.migrate(&database, 1).await.unwrap();
        let mut tables = Vec::new();
        for name in tables_of(old) {
            let columns = columns(&database, &name).await;
            insert(&name, &columns).execute(&database).await.unwrap();
            tables.push((name, columns));
        }
        SCHEMA.migrate(&database, 2).await.unwrap();
        database.close().await;
        // A connection may remember the columns that a table had before.
        let database = Database::open(&address, settings).await.unwrap();
        for (name, columns) in &tables {
            let rows = query_built(format!("SELECT * FROM {name}")).fetch_all(&database).await.unwrap();
            assert_eq!(rows.len(), 1, "{name} from version {version}");
            for (column, kind) in columns {
                assert!(is_kept(&rows[0], column, *kind), "{name}.{column} from version {version}");
            }
        }
        let versions: Vec<(i64, i64)> = query_as("SELECT version, applied_at FROM schema_version ORDER BY version")
            .fetch_all(&database)
            .await
            .unwrap();
        let expected: Vec<_> =
            (1..=SCHEMA.version()).map(|step| (step, if step <= version as i64 { 1 } else { 2 })).collect();
        assert_eq!(versions, expected);
        database.close().await;
    }
}

#[tokio::test]
async fn a_database_of_a_newer_program_is_refused_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let address = backend::place(folder.path()).await.database;
    let settings = PoolSettings { connections_max: 2, busy_max: long(), statement_max: long() };
    let database = Database::open(&address, settings).await.unwrap();
    SCHEMA.migrate(&database, 1).await.unwrap();
    let older = Schema { steps: &SCHEMA.steps[..SCHEMA.steps.len() - 1] };
    let refused = older.migrate(&database, 2).await.unwrap_err().to_string();
    assert!(refused.contains("use a newer program"), "{refused}");
    SCHEMA.migrate(&database, 3).await.unwrap();
    database.close().await;
}

#[tokio::test]
async fn a_sandbox_of_the_first_version_still_runs() {
    let folder = tempfile::tempdir().unwrap();
    let id = SandboxId::random();
    {
        let address = backend::place(folder.path()).await.database;
        let settings = PoolSettings { connections_max: 2, busy_max: long(), statement_max: long() };
        let database = Database::open(&address, settings).await.unwrap();
        Schema { steps: &SCHEMA.steps[..1] }.migrate(&database, 0).await.unwrap();
        query("INSERT INTO workspace VALUES ('default', 0)").execute(&database).await.unwrap();
        let old = "INSERT INTO sandbox VALUES (?, 'default', 1, 5, 'mini', 60, TRUE, '{\"a\":\"b\"}', '{}', 2, 512,
                       'running', NULL, '10.0.0.2', 12, 'standby', 'fake')";
        query(old).bind(id.to_string()).execute(&database).await.unwrap();
        database.close().await;
    }
    let host = Arc::new(StubHost::default());
    host.add(id);
    let rig = Rig::start_in(folder, host).await;
    let (status, sandbox) = rig.get(&format!("/v1/sandboxes/{id}")).await;
    assert_eq!((status, &sandbox["ttl_seconds"], &sandbox["persistent"]), (200, &json!(60), &json!(true)));
    assert_eq!(sandbox["metadata"], json!({"a": "b", "workspace": "default"}));
    assert!(sandbox.get("egress_allowlist").is_none() && sandbox.get("from_snapshot").is_none());
    assert_eq!(rig.post(&format!("/v1/sandboxes/{id}/fork")).await.0, 201);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Boolean,
    Text,
    Bytes,
}

/// The tables that a schema makes, in the order of their creation.
fn tables_of(schema: Schema) -> Vec<String> {
    let made = schema.steps.iter().flat_map(|step| step.split("CREATE TABLE ").skip(1));
    made.map(|rest| rest.split_whitespace().next().unwrap().to_owned()).collect()
}

async fn columns(database: &Database, table: &str) -> Vec<(String, Kind)> {
    let sql = if database.is_server() {
        format!(
            "SELECT CAST(column_name AS TEXT) AS name, CAST(data_type AS TEXT) AS type FROM information_schema.columns
             WHERE table_schema = current_schema() AND table_name = '{table}'"
        )
    } else {
        format!("PRAGMA table_info({table})")
    };
    let kind = |row: &DatabaseRow| match row.try_get::<String>("type").unwrap().to_uppercase().as_str() {
        "BIGINT" => Kind::Integer,
        "BOOLEAN" => Kind::Boolean,
        "TEXT" => Kind::Text,
        "BLOB" | "BYTEA" => Kind::Bytes,
        other => panic!("a column of {table} has the type {other}, which SQLite and PostgreSQL do not share"),
    };
    let rows = query_built(sql).fetch_all(database).await.unwrap();
    rows.iter().map(|row| (row.try_get("name").unwrap(), kind(row))).collect()
}

fn insert(table: &str, columns: &[(String, Kind)]) -> Query<'static> {
    let names: Vec<_> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let places = vec!["?"; columns.len()].join(", ");
    let sql = format!("INSERT INTO {table} ({}) VALUES ({places})", names.join(", "));
    columns.iter().fold(query_built(sql), |query, (_, kind)| match kind {
        Kind::Integer => query.bind(7),
        Kind::Boolean => query.bind(true),
        Kind::Text => query.bind(TEXT),
        Kind::Bytes => query.bind(vec![0, 255]),
    })
}

fn is_kept(row: &DatabaseRow, column: &str, kind: Kind) -> bool {
    match kind {
        Kind::Integer => row.try_get::<i64>(column).unwrap() == 7,
        Kind::Boolean => row.try_get::<bool>(column).unwrap(),
        Kind::Text => row.try_get::<String>(column).unwrap() == TEXT,
        Kind::Bytes => row.try_get::<Vec<u8>>(column).unwrap() == [0, 255],
    }
}
