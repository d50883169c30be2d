//! A ledger whose nth write fails, for tests. Triggers in its file count the writes, so it works
//! for every connection, including those of a host that does not know of it.

use super::{Ledger, LedgerError, sql};

/// What happens to the write that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteLoss {
    /// Nothing was written.
    Yes,
    /// It was written, but the caller gets an error.
    No,
}

/// Counts the writes of a ledger and makes one fail.
#[derive(Debug)]
pub struct LedgerFaults {
    ledger: Ledger,
}

impl LedgerFaults {
    /// Adds the counter to a ledger, permanently.
    pub async fn install(ledger: Ledger, lost: WriteLoss) -> Result<Self, LedgerError> {
        let tables: Vec<String> =
            sqlx::query_scalar("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
                .fetch_all(&ledger.pool)
                .await
                .map_err(sql("list the tables"))?;
        let faults = Self { ledger };
        faults.run("CREATE TABLE faults (left INTEGER NOT NULL) STRICT; INSERT INTO faults VALUES (-1)").await?;
        let when = if lost == WriteLoss::Yes { "BEFORE" } else { "AFTER" };
        for table in &tables {
            for change in ["INSERT", "UPDATE", "DELETE"] {
                // FAIL ends the statement but keeps its changes so far: the count, and the row if
                // it was already written.
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

    /// Makes the nth write from now on fail, counted from 1, and only that one.
    pub async fn arm(&self, nth: u32) -> Result<(), LedgerError> {
        self.run(&format!("UPDATE faults SET left = {}", nth.max(1))).await
    }

    /// Lets all writes pass. Returns whether the write that `arm` chose has failed.
    pub async fn disarm(&self) -> Result<bool, LedgerError> {
        let left: i64 = sqlx::query_scalar("SELECT left FROM faults")
            .fetch_one(&self.ledger.pool)
            .await
            .map_err(sql("look at the count"))?;
        self.run("UPDATE faults SET left = -1").await?;
        Ok(left <= 0)
    }

    async fn run(&self, text: &str) -> Result<(), LedgerError> {
        // All names in the text are our own.
        let ran = sqlx::raw_sql(sqlx::AssertSqlSafe(text.to_owned())).execute(&self.ledger.pool).await;
        ran.map(drop).map_err(sql("let the ledger fail"))
    }
}
