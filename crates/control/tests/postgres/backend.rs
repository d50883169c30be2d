//! The state of a test's control plane in PostgreSQL. Each test has a schema of its own.

use std::{path::Path, time::Duration};

use pandastack_control::ControlPlace;
use pandastack_database::{Database, DatabaseAddress, PoolSettings, query_as, query_built, server::shared_schema};

/// Returns the place of the state that belongs to a folder.
pub async fn place(folder: &Path) -> ControlPlace {
    ControlPlace::in_folder(folder).with_database(shared_schema(folder).await.unwrap())
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
