//! Declared ports, which are stored as metadata, and the signing key of previews.

use std::collections::BTreeMap;

use pandastack_database::{query, query_scalar};
use pandastack_model::{GuestPort, SandboxId};
use pandastack_wire_public::{declared_key, declared_ports};

use super::{Store, StoreError, failed, intent::map_to_sql, to_sql};

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
    /// Declares a port, or changes its label.
    pub async fn declare_port(
        &self,
        id: SandboxId,
        (port, label): (GuestPort, &str),
        ports_max: usize,
    ) -> Result<PortAdded, StoreError> {
        let change = |metadata: &mut BTreeMap<String, String>| {
            let key = declared_key(port);
            let declared = declared_ports(metadata).len();
            if declared >= ports_max && !metadata.contains_key(&key) {
                return PortAdded::Full;
            }
            metadata.insert(key, label.to_owned());
            PortAdded::Yes
        };
        // A sandbox that is gone cannot have another port.
        Ok(self.change_metadata(id, change).await?.unwrap_or(PortAdded::Full))
    }

    /// Removes a declaration. Succeeds if there is none.
    pub async fn undeclare_port(&self, id: SandboxId, port: GuestPort) -> Result<(), StoreError> {
        let change = |metadata: &mut BTreeMap<String, String>| drop(metadata.remove(&declared_key(port)));
        self.change_metadata(id, change).await.map(drop)
    }

    /// Changes the metadata of a sandbox. `None` if there is no such sandbox.
    async fn change_metadata<T>(
        &self,
        id: SandboxId,
        change: impl FnOnce(&mut BTreeMap<String, String>) -> T,
    ) -> Result<Option<T>, StoreError> {
        let mut tx = self.begin_for(id, "begin a change of metadata").await?;
        let text: Option<String> = query_scalar("SELECT metadata FROM sandbox WHERE id = ?")
            .bind(id.to_string())
            .fetch_optional(&mut tx)
            .await
            .map_err(failed("read a sandbox's metadata"))?;
        let Some(text) = text else { return Ok(None) };
        let corrupt = |_| StoreError::Corrupt { id: id.to_string(), field: "metadata" };
        let mut metadata = serde_json::from_str(&text).map_err(corrupt)?;
        let changed = change(&mut metadata);
        query("UPDATE sandbox SET metadata = ? WHERE id = ?")
            .bind(map_to_sql(&metadata))
            .bind(id.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("change a sandbox's metadata"))?;
        tx.commit().await.map_err(failed("commit a change of metadata"))?;
        Ok(Some(changed))
    }

    /// Returns the signing key of previews. If there is none yet, `fresh` becomes it.
    pub async fn preview_key(
        &self,
        fresh: [u8; SIGNING_KEY_BYTES],
        now_ns: u64,
    ) -> Result<[u8; SIGNING_KEY_BYTES], StoreError> {
        let keep = "INSERT INTO signing_key (name, bytes, created_at) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING";
        query(keep)
            .bind(PREVIEW_KEY)
            .bind(fresh.to_vec())
            .bind(to_sql(now_ns))
            .execute(&self.database)
            .await
            .map_err(failed("store a signing key"))?;
        let kept: Vec<u8> = query_scalar("SELECT bytes FROM signing_key WHERE name = ?")
            .bind(PREVIEW_KEY)
            .fetch_one(&self.database)
            .await
            .map_err(failed("read a signing key"))?;
        kept.try_into().map_err(|_| StoreError::Corrupt { id: PREVIEW_KEY.to_owned(), field: "bytes" })
    }
}
