//! A ledger whose nth write fails: triggers in its file count down, as a full or dying disk would choose its moment.

use std::path::Path;

use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};

/// What becomes of the write that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nothing was written.
    Yes,
    /// It was written all the same; only the answer says that it was not.
    No,
}

/// The counter, over a connection of its own.
pub struct Faults {
    pub lost: Lost,
    connection: SqliteConnection,
}

impl Faults {
    /// Adds the counter to a ledger that is there.
    pub async fn install(ledger: &Path, lost: Lost) -> Self {
        let options = SqliteConnectOptions::new().filename(ledger);
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        let tables: Vec<String> =
            sqlx::query_scalar("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
                .fetch_all(&mut connection)
                .await
                .unwrap();
        assert!(tables.len() >= 4, "{tables:?}");
        run(&mut connection, "CREATE TABLE faults (left INTEGER NOT NULL) STRICT; INSERT INTO faults VALUES (-1)")
            .await;
        let when = if lost == Lost::Yes { "BEFORE" } else { "AFTER" };
        for table in &tables {
            for change in ["INSERT", "UPDATE", "DELETE"] {
                // FAIL ends the statement and keeps what it did so far: the count, and the line of a trigger that comes after.
                let trigger = format!(
                    "CREATE TRIGGER fail_{table}_{change} {when} {change} ON {table} BEGIN
                         UPDATE faults SET left = left - 1 WHERE left >= 0;
                         SELECT RAISE(FAIL, 'disk I/O error') FROM faults WHERE left = 0;
                     END"
                );
                run(&mut connection, &trigger).await;
            }
        }
        Self { lost, connection }
    }

    /// Lets the nth write from now on fail, and only that one.
    pub async fn arm(&mut self, nth: i64) {
        assert!(nth > 0);
        run(&mut self.connection, &format!("UPDATE faults SET left = {nth}")).await;
    }

    /// Lets everything pass, and tells whether a write has failed.
    pub async fn disarm(&mut self) -> bool {
        let left: i64 = sqlx::query_scalar("SELECT left FROM faults").fetch_one(&mut self.connection).await.unwrap();
        run(&mut self.connection, "UPDATE faults SET left = -1").await;
        left <= 0
    }
}

async fn run(connection: &mut SqliteConnection, text: &str) {
    // The names in it come from the ledger's own schema.
    sqlx::raw_sql(sqlx::AssertSqlSafe(text.to_owned())).execute(connection).await.unwrap();
}
