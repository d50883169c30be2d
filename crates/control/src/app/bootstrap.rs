//! Creates the first API key, so that a new server can be used at once.

use pandastack_door::shown_prefix;
use pandastack_kit::{Secret, random_hex};
use pandastack_wire_fleet::{FIRST_WORKSPACE, WorkspaceId};

use super::authenticate::{KEY_PREFIX, is_key, key_hash};
use crate::{
    Control,
    store::{KeyRow, OPERATOR, StoreError},
};

/// The key of the first workspace after a start.
pub enum BootstrapKey {
    /// A new key. Only its hash is stored, so it can be shown only now.
    Made(Secret<String>),
    /// The given key. It is stored and not revoked.
    Given(Secret<String>),
    /// The given key was revoked earlier and stays revoked.
    Revoked { prefix: String },
    /// Keys exist from an earlier start. This is the prefix of the oldest one that works.
    Kept { prefix: String },
}

impl BootstrapKey {
    /// Returns the whole key, if it is known.
    pub fn reveal(&self) -> Option<&str> {
        match self {
            BootstrapKey::Made(key) | BootstrapKey::Given(key) => Some(key.reveal()),
            BootstrapKey::Kept { .. } | BootstrapKey::Revoked { .. } => None,
        }
    }

    /// Returns the part of the key that may be shown.
    pub fn prefix(&self) -> &str {
        match self {
            BootstrapKey::Made(key) | BootstrapKey::Given(key) => shown_prefix(key.reveal()),
            BootstrapKey::Kept { prefix } | BootstrapKey::Revoked { prefix } => prefix,
        }
    }
}

/// Why there is no first key.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    #[error("the given API key must be pds_ followed by 32 lowercase hex digits")]
    BadKey,
    #[error("store the first API key")]
    Keep(#[source] StoreError),
}

impl Control {
    /// Ensures that the first workspace has a key: the given one, an existing one, or a new one.
    pub async fn bootstrap(&self, key: Option<String>) -> Result<BootstrapKey, BootstrapError> {
        let workspace = WorkspaceId(FIRST_WORKSPACE.to_owned());
        if let Some(key) = key {
            self.ensure_key(&workspace, &key, "bootstrap").await?;
            let known = self.store.key_by_hash(&key_hash(&key)).await.map_err(BootstrapError::Keep)?;
            if known.is_some_and(|known| known.revoked) {
                return Ok(BootstrapKey::Revoked { prefix: shown_prefix(&key).to_owned() });
            }
            return Ok(BootstrapKey::Given(Secret::new(key)));
        }
        let kept = self.store.first_key_prefix(&workspace, self.clock.now_ns()).await.map_err(BootstrapError::Keep)?;
        if let Some(prefix) = kept {
            return Ok(BootstrapKey::Kept { prefix });
        }
        let key = format!("{KEY_PREFIX}{}", random_hex::<16>());
        self.ensure_key(&workspace, &key, "bootstrap").await?;
        Ok(BootstrapKey::Made(Secret::new(key)))
    }

    /// Ensures that a workspace exists and that this key is stored. A stored key does not change.
    pub async fn ensure_key(&self, workspace: &WorkspaceId, key: &str, label: &str) -> Result<(), BootstrapError> {
        self.ensure_key_until(workspace, key, label, None).await
    }

    /// Like `ensure_key`, for a key with an expiry time.
    pub async fn ensure_key_until(
        &self,
        workspace: &WorkspaceId,
        key: &str,
        label: &str,
        expires_at_ns: Option<u64>,
    ) -> Result<(), BootstrapError> {
        if !is_key(key) {
            return Err(BootstrapError::BadKey);
        }
        let (hash, prefix) = (key_hash(key), shown_prefix(key));
        let row = KeyRow { hash: &hash, prefix, label, expires_at_ns, created_by: OPERATOR };
        self.store.ensure_key(workspace, row, self.clock.now_ns()).await.map_err(BootstrapError::Keep)
    }
}
