//! A ledger whose nth write fails, for tests: triggers in its file count down, as a full or dying
//! disk would choose its moment. They work for every connection, also for those of a host that
//! knows nothing of it.

use super::{Ledger, LedgerError, sql};

/// What becomes of the write that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nothing was written.
    Yes,
    /// It was written all the same; only the answer says that it was not.
    No,
}

/// The counter.
#[derive(Debug)]
pub struct LedgerFaults {
    ledger: Ledger,
}

impl LedgerFaults {
    /// Adds the counter to a ledger. It stays there.
    pub async fn install(ledger: Ledger, lost: Lost) -> Result<Self, LedgerError> {
        let tables: Vec<String> =
            sqlx::query_scalar("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
                .fetch_all(&ledger.pool)
                .await
                .map_err(sql("list the tables"))?;
        let faults = Self { ledger };
        faults.run("CREATE TABLE faults (left INTEGER NOT NULL) STRICT; INSERT INTO faults VALUES (-1)").await?;
        let when = if lost == Lost::Yes { "BEFORE" } else { "AFTER" };
        for table in &tables {
            for change in ["INSERT", "UPDATE", "DELETE"] {
                // FAIL ends the statement and keeps what it did so far: the count, and the line if
                // it was written before.
                let trigger = format!(
                    "CREATE TRIGGER fail_{table}_{change} {when} {change} ON {table} BEGIN
                         UPDATE faults SET left = left - 1 WHERE left >= 0;
                         SELECT RAISE(FAIL, 'disk I/O error') FROM faults WHERE left = 0;
                     END"
                );
                faults.run(&trigger).await?;
            }
        }
        Ok(faults)
    }

    /// Lets the nth write from now on fail, counted from 1, and only that one.
    pub async fn arm(&self, nth: u32) -> Result<(), LedgerError> {
        self.run(&format!("UPDATE faults SET left = {}", nth.max(1))).await
    }

    /// Lets everything pass, and tells whether a write has failed.
    pub async fn disarm(&self) -> Result<bool, LedgerError> {
        let left: i64 = sqlx::query_scalar("SELECT left FROM faults")
            .fetch_one(&self.ledger.pool)
            .await
            .map_err(sql("look at the count"))?;
        self.run("UPDATE faults SET left = -1").await?;
        Ok(left <= 0)
    }

    async fn run(&self, text: &str) -> Result<(), LedgerError> {
        // All names in it are our own.
        let ran = sqlx::raw_sql(sqlx::AssertSqlSafe(text.to_owned())).execute(&self.ledger.pool).await;
        ran.map(drop).map_err(sql("let the ledger fail"))
    }
}
