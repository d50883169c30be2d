//! The list of rights that have shrunk. Every server reads it and forgets what it had cached.

use pandastack_database::{Transaction, WriteLock, query, query_as, query_scalar};

use super::{Store, StoreError, failed, from_sql, to_sql};

/// Whose rights have shrunk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Revoked {
    /// A key or a session, by the hash of its token.
    Token(String),
    /// A user, by id: open requests end, because they may use rights that are gone.
    User(String),
    /// What is cached about a user, by id. Open requests continue.
    CachedUser(String),
}

impl Revoked {
    fn to_text(&self) -> String {
        match self {
            Revoked::Token(hash) => format!("token {hash}"),
            Revoked::User(id) => format!("user {id}"),
            Revoked::CachedUser(id) => format!("cache {id}"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (kind, id) = text.split_once(' ')?;
        let id = id.to_owned();
        match kind {
            "token" => Some(Revoked::Token(id)),
            "user" => Some(Revoked::User(id)),
            "cache" => Some(Revoked::CachedUser(id)),
            _ => None,
        }
    }
}

impl Store {
    /// Returns the number of the newest revocation.
    pub async fn last_revocation(&self) -> Result<u64, StoreError> {
        let last: i64 = query_scalar("SELECT COALESCE(MAX(number), 0) FROM revocation")
            .fetch_one(&self.database)
            .await
            .map_err(failed("find the newest revocation"))?;
        Ok(from_sql(last))
    }

    /// Lists revocations after one, in the order of their commits, and returns the newest number.
    /// Those of this server are left out: it has applied them, and callers have come back since.
    pub async fn revocations_after(&self, number: u64) -> Result<(u64, Vec<Revoked>), StoreError> {
        let rows: Vec<(i64, String, String)> =
            query_as("SELECT number, server, subject FROM revocation WHERE number > ? ORDER BY number")
                .bind(to_sql(number))
                .fetch_all(&self.database)
                .await
                .map_err(failed("list revocations"))?;
        let newest = rows.last().map_or(number, |(newest, ..)| from_sql(*newest));
        let others = rows.into_iter().filter(|(_, server, _)| *server != *self.server);
        Ok((newest, others.filter_map(|(_, _, text)| Revoked::parse(&text)).collect()))
    }

    /// Removes old revocations. The newest stays, because its number counts on.
    pub async fn prune_revocations(&self, before_ns: u64) -> Result<(), StoreError> {
        query("DELETE FROM revocation WHERE at < ? AND number < (SELECT MAX(number) FROM revocation)")
            .bind(to_sql(before_ns))
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("remove old revocations"))
    }

    /// Records revocations. This must be the last lock of the transaction.
    pub(super) async fn announce(
        &self,
        tx: &mut Transaction,
        revoked: &[Revoked],
        now_ns: u64,
    ) -> Result<(), StoreError> {
        if revoked.is_empty() {
            return Ok(());
        }
        // The lock makes the order of the numbers that of the commits, so that no reader skips one.
        tx.lock(WriteLock::on_all("revocation")).await.map_err(failed("lock the revocations"))?;
        for subject in revoked {
            let sql = "INSERT INTO revocation (number, server, subject, at)
                   SELECT COALESCE(MAX(number), 0) + 1, ?, ?, ? FROM revocation";
            query(sql)
                .bind(&*self.server)
                .bind(subject.to_text())
                .bind(to_sql(now_ns))
                .execute(&mut *tx)
                .await
                .map_err(failed("record a revocation"))?;
        }
        Ok(())
    }
}
