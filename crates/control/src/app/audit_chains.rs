//! The audit chains as the operator checks them: directly in the database, whether or not a server
//! uses it.

use pandastack_database::DatabaseAddress;
use pandastack_wire_fleet::WorkspaceId;

use crate::store::{ChainReport, Store, StoreError};

/// The audit chains of a server.
pub struct AuditChains {
    store: Store,
}

impl AuditChains {
    /// Opens the database of a server.
    pub async fn open(database: &DatabaseAddress, now_ns: u64) -> Result<Self, StoreError> {
        Ok(Self { store: Store::open(database, now_ns).await? })
    }

    /// Lists the workspaces that have a chain or entries.
    pub async fn workspaces(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.store.audit_workspaces().await?.into_iter().map(|workspace| workspace.0).collect())
    }

    /// Checks every entry of a workspace.
    pub async fn verify(&self, workspace: &str) -> Result<ChainReport, StoreError> {
        self.store.verify_chain(&WorkspaceId(workspace.to_owned())).await
    }

    /// Closes the database.
    pub async fn close(self) {
        self.store.close().await;
    }
}
