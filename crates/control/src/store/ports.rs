//! Declared ports, which are stored as metadata, and the signing key of previews.

use pandastack_model::{GuestPort, SandboxId};
use pandastack_wire_public::declared_key;

use super::{Store, StoreError, failed, to_sql};

/// Bytes of a signing key.
pub const SIGNING_KEY_BYTES: usize = 32;

/// Name of the row with the signing key of previews.
const PREVIEW_KEY: &str = "preview";

/// The result of a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortAdded {
    Yes,
    /// The limit of declared ports is reached.
    Full,
}

impl Store {
    /// Declares a port, or changes its label. One statement counts and writes, so that concurrent
    /// callers cannot exceed the limit.
    pub async fn declare_port(
        &self,
        id: SandboxId,
        (port, label): (GuestPort, &str),
        ports_max: usize,
    ) -> Result<PortAdded, StoreError> {
        let sql = "UPDATE sandbox SET metadata = json_set(metadata, ?1, ?2) WHERE id = ?3 AND (
                       json_type(metadata, ?1) IS NOT NULL
                       OR (SELECT COUNT(*) FROM json_each(sandbox.metadata) WHERE key GLOB 'port.*') < ?4)";
        let done = sqlx::query(sql)
            .bind(json_path(port))
            .bind(label)
            .bind(id.to_string())
            .bind(to_sql(ports_max as u64))
            .execute(&self.pool)
            .await
            .map_err(failed("declare a port"))?;
        Ok(if done.rows_affected() == 1 { PortAdded::Yes } else { PortAdded::Full })
    }

    /// Removes a declaration. Succeeds if there is none.
    pub async fn undeclare_port(&self, id: SandboxId, port: GuestPort) -> Result<(), StoreError> {
        sqlx::query("UPDATE sandbox SET metadata = json_remove(metadata, ?) WHERE id = ?")
            .bind(json_path(port))
            .bind(id.to_string())
            .execute(&self.pool)
            .await
            .map(drop)
            .map_err(failed("delete a port's declaration"))
    }

    /// Returns the signing key of previews. If there is none yet, `fresh` becomes it.
    pub async fn preview_key(
        &self,
        fresh: [u8; SIGNING_KEY_BYTES],
        now_ns: u64,
    ) -> Result<[u8; SIGNING_KEY_BYTES], StoreError> {
        let keep = "INSERT INTO signing_key (name, bytes, created_at) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING";
        sqlx::query(keep)
            .bind(PREVIEW_KEY)
            .bind(fresh.to_vec())
            .bind(to_sql(now_ns))
            .execute(&self.pool)
            .await
            .map_err(failed("store a signing key"))?;
        let kept: Vec<u8> = sqlx::query_scalar("SELECT bytes FROM signing_key WHERE name = ?")
            .bind(PREVIEW_KEY)
            .fetch_one(&self.pool)
            .await
            .map_err(failed("read a signing key"))?;
        kept.try_into().map_err(|_| StoreError::Corrupt { id: PREVIEW_KEY.to_owned(), field: "bytes" })
    }
}

/// The JSON path of a port's label in the metadata. A port is a number, so it needs no escaping.
fn json_path(port: GuestPort) -> String {
    format!("$.\"{}\"", declared_key(port))
}
