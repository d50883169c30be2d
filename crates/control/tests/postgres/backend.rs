//! The state of a test's control plane in PostgreSQL. Each test has a schema of its own.

use std::{path::Path, time::Duration};

use pandastack_control::ControlPlace;
use pandastack_database::{
    Database, DatabaseAddress, PoolSettings, PostgresUrl, query_as, query_built, server::SHARED,
};

/// Returns the place of the state that belongs to a folder.
pub async fn place(folder: &Path) -> ControlPlace {
    let schema = schema(folder);
    let database = open(&DatabaseAddress::Server(shared(""))).await;
    query_built(format!("CREATE SCHEMA IF NOT EXISTS {schema}")).execute(&database).await.unwrap();
    database.close().await;
    let own = shared(&format!("?options=-c%20search_path%3D{schema}"));
    ControlPlace::in_folder(folder).with_database(DatabaseAddress::Server(own))
}

/// Returns everything that is stored, as text.
pub async fn stored(folder: &Path) -> Vec<u8> {
    let database = open(&place(folder).await.database).await;
    let tables: Vec<(String,)> =
        query_as("SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = current_schema()")
            .fetch_all(&database)
            .await
            .unwrap();
    let mut all = Vec::new();
    for (table,) in tables {
        let rows = query_built(format!("SELECT CAST(stored AS TEXT) AS stored FROM {table} AS stored"));
        for row in rows.fetch_all(&database).await.unwrap() {
            all.extend(row.try_get::<String>("stored").unwrap().into_bytes());
        }
    }
    all
}

async fn open(address: &DatabaseAddress) -> Database {
    let long = Duration::from_secs(30);
    Database::open(address, PoolSettings { connections_max: 1, busy_max: long, statement_max: long }).await.unwrap()
}

fn schema(folder: &Path) -> String {
    let name = folder.file_name().unwrap().to_str().unwrap().trim_start_matches('.').to_lowercase();
    format!("test_{}_{name}", std::process::id())
}

fn shared(options: &str) -> PostgresUrl {
    let shared = std::env::var(SHARED).unwrap_or_else(|_| {
        panic!("{SHARED} is not set; run the test with: scripts/test -E 'test(NAME)'");
    });
    format!("{shared}{options}").parse().unwrap()
}
