//! Declared ports, which are metadata of the server's own, and the key that previews are signed
//! with.

use pandastack_model::{GuestPort, SandboxId};
use pandastack_wire_public::declared_key;

use super::{Store, StoreError, failed, to_sql};

/// Bytes of a signing key.
pub const SIGNING_KEY_BYTES: usize = 32;

/// The row of the key that previews are signed with.
const PREVIEW_KEY: &str = "preview";

/// What became of a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    Yes,
    /// As many are declared as may be.
    Full,
}

impl Store {
    /// Declares a port, or changes its label. Counted and written in one step, so that two callers
    /// cannot pass the limit.
    pub async fn declare_port(
        &self,
        id: SandboxId,
        (port, label): (GuestPort, &str),
        ports_max: usize,
    ) -> Result<Declared, StoreError> {
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
        Ok(if done.rows_affected() == 1 { Declared::Yes } else { Declared::Full })
    }

    /// Takes a declaration back. One that is not there is fine.
    pub async fn undeclare_port(&self, id: SandboxId, port: GuestPort) -> Result<(), StoreError> {
        sqlx::query("UPDATE sandbox SET metadata = json_remove(metadata, ?) WHERE id = ?")
            .bind(json_path(port))
            .bind(id.to_string())
            .execute(&self.pool)
            .await
            .map(drop)
            .map_err(failed("take a port's declaration back"))
    }

    /// Gives the key that previews are signed with; the fresh one becomes it if there is none yet.
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
            .map_err(failed("keep a signing key"))?;
        let kept: Vec<u8> = sqlx::query_scalar("SELECT bytes FROM signing_key WHERE name = ?")
            .bind(PREVIEW_KEY)
            .fetch_one(&self.pool)
            .await
            .map_err(failed("read a signing key"))?;
        kept.try_into().map_err(|_| StoreError::Corrupt { id: PREVIEW_KEY.to_owned(), field: "bytes" })
    }
}

/// Where a port's label lies in the metadata. A port is a number, so nothing needs escaping.
fn json_path(port: GuestPort) -> String {
    format!("$.\"{}\"", declared_key(port))
}
