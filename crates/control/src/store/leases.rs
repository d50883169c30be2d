//! Leases of work that one server at a time does.

use std::time::Duration;

use pandastack_database::{query, query_scalar};

use super::{Store, StoreError, failed, from_sql, to_sql};

/// Name of the lease that the server with the host has.
pub const HOST_LEASE_NAME: &str = "host";
/// Start of the names of the leases that show which servers run.
pub(super) const SERVER_LEASE_PREFIX: &str = "server/";

/// From when until when a lease is taken.
#[derive(Clone, Copy, Debug)]
pub struct LeaseTerm {
    now_ns: u64,
    until_ns: u64,
}

impl LeaseTerm {
    pub fn new(now_ns: u64, length: Duration) -> Self {
        Self { now_ns, until_ns: now_ns.saturating_add(length.as_nanos() as u64) }
    }
}

impl Store {
    /// Takes leases under a name that survives a restart, instead of a random one.
    #[must_use]
    pub fn with_lease_holder(self, holder: &str) -> Self {
        Self { holder: holder.into(), ..self }
    }

    /// Takes or renews a lease for this server. Returns false if another server has it.
    pub async fn take_lease(&self, name: &str, term: LeaseTerm) -> Result<bool, StoreError> {
        let sql = "INSERT INTO worker_lease (name, holder, until) VALUES (?1, ?2, ?3)
                   ON CONFLICT (name) DO UPDATE SET holder = ?2, until = ?3
                       WHERE worker_lease.holder = ?2 OR worker_lease.until <= ?4";
        let taken = query(sql)
            .bind(name)
            .bind(&*self.holder)
            .bind(to_sql(term.until_ns))
            .bind(to_sql(term.now_ns))
            .execute(&self.database)
            .await
            .map_err(failed("take a lease"))?;
        Ok(taken > 0)
    }

    /// Returns when a lease ends or has ended. `None` if nobody has it.
    pub async fn lease_end(&self, name: &str) -> Result<Option<u64>, StoreError> {
        let until: Option<i64> = query_scalar("SELECT until FROM worker_lease WHERE name = ?")
            .bind(name)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("read a lease"))?;
        Ok(until.map(from_sql))
    }

    /// Gives a lease up, so that another server need not wait for its end.
    pub async fn drop_lease(&self, name: &str) -> Result<(), StoreError> {
        query("DELETE FROM worker_lease WHERE name = ? AND holder = ?")
            .bind(name)
            .bind(&*self.holder)
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("give up a lease"))
    }

    /// Returns the name of the lease that shows that this server runs.
    pub fn server_lease(&self) -> String {
        format!("{SERVER_LEASE_PREFIX}{}", self.holder)
    }

    /// Removes leases of servers that ended before a moment.
    pub async fn prune_server_leases(&self, before_ns: u64) -> Result<(), StoreError> {
        query("DELETE FROM worker_lease WHERE name LIKE ? AND until < ?")
            .bind(format!("{SERVER_LEASE_PREFIX}%"))
            .bind(to_sql(before_ns))
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("remove old leases"))
    }
}
