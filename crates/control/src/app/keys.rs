//! Creates, lists and revokes API keys. A key can access only the keys of its own workspace. A
//! revocation takes effect before the response: the key leaves the cache, and connections that use
//! it are closed.

use pandastack_database::DatabaseAddress;
use pandastack_door::shown_prefix;
use pandastack_kit::{Secret, random_hex};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{Caller, FIRST_WORKSPACE, WorkspaceId};
use pandastack_wire_public::KeySpec;

use super::authenticate::{KEY_PREFIX, key_hash};
use crate::{
    Control,
    limits::{KEYS_ENDED_MAX, KEYS_PER_WORKSPACE_MAX},
    store::{
        KeyAdded, KeyLimits, KeyRevoked, KeyRow, LastKey, ListedKey, OPERATOR, Revoked, Store, StoreError, key_id,
    },
};

const NS_PER_SECOND: u64 = 1_000_000_000;
const LIMITS: KeyLimits = KeyLimits { working_max: KEYS_PER_WORKSPACE_MAX, ended_max: KEYS_ENDED_MAX };

/// A new key. Only its hash is stored, so it can be shown only now.
pub struct NewKey {
    pub key: Secret<String>,
    pub stored: ListedKey,
}

/// Why a key could not be made without a server.
#[derive(Debug, thiserror::Error)]
pub enum OfflineKeyError {
    #[error("open the control database")]
    Database(#[source] StoreError),
    #[error(
        "the workspace already has {KEYS_PER_WORKSPACE_MAX} API keys; revoke one first with \"pandastack key revoke\""
    )]
    Full,
}

impl Control {
    /// Makes a key for the caller's workspace.
    pub(crate) async fn make_key(&self, caller: &Caller, ask: &KeySpec) -> Result<NewKey, Fault> {
        let user = caller.user.as_deref().map(|user| user.id.as_str());
        let created_by = user.or(caller.key.id()).unwrap_or(OPERATOR);
        let now_ns = self.clock.now_ns();
        let made = add(&self.store, &caller.workspace, ask, created_by, now_ns).await?;
        made.ok_or_else(|| {
            let text = format!("the workspace already has {KEYS_PER_WORKSPACE_MAX} API keys; revoke one first");
            Fault::new(FaultKind::Quota, "quota.keys", text)
        })
    }

    /// Lists the keys of the caller's workspace, newest first.
    pub(crate) async fn keys_of(&self, caller: &Caller) -> Result<Vec<ListedKey>, Fault> {
        Ok(self.store.list_keys(&caller.workspace, KEYS_PER_WORKSPACE_MAX + KEYS_ENDED_MAX).await?)
    }

    /// Revokes keys of the caller's workspace by id or prefix. Afterwards no request with them is
    /// accepted, and open connections that use them end.
    pub(crate) async fn revoke_key(&self, caller: &Caller, name: &str, last: LastKey) -> Result<(), Fault> {
        let revoked = self.store.revoke_keys(&caller.workspace, name, last, self.clock.now_ns()).await?;
        match revoked {
            KeyRevoked::Yes(hashes) => {
                // This must be the last step: it may end this request.
                let revoked: Vec<_> = hashes.into_iter().map(Revoked::Token).collect();
                self.access.cache.forget(&revoked);
                Ok(())
            }
            KeyRevoked::Missing => Err(Fault::new(FaultKind::Missing, "key.not_found", "API key not found")),
            KeyRevoked::Last => {
                let text =
                    "this is the last valid API key of the workspace; create another one first, or send force=true";
                Err(Fault::new(FaultKind::Conflict, "key.last", text))
            }
        }
    }

    /// Makes a key for the first workspace directly in the database, whether or not a server uses
    /// it. This is for an operator that lost every key.
    pub async fn make_key_offline(
        database: &DatabaseAddress,
        ask: &KeySpec,
        now_ns: u64,
    ) -> Result<NewKey, OfflineKeyError> {
        let store = Store::open(database, now_ns).await.map_err(OfflineKeyError::Database)?;
        let workspace = WorkspaceId(FIRST_WORKSPACE.to_owned());
        let made = add(&store, &workspace, ask, OPERATOR, now_ns).await.map_err(OfflineKeyError::Database);
        store.close().await;
        made?.ok_or(OfflineKeyError::Full)
    }
}

/// Adds a new key. Returns `None` if the workspace has too many.
async fn add(
    store: &Store,
    workspace: &WorkspaceId,
    ask: &KeySpec,
    created_by: &str,
    now_ns: u64,
) -> Result<Option<NewKey>, StoreError> {
    let key = format!("{KEY_PREFIX}{}", random_hex::<16>());
    let hash = key_hash(&key);
    let expires_at_ns = ask.expires_in.map(|life| now_ns.saturating_add(life.as_secs().saturating_mul(NS_PER_SECOND)));
    let prefix = shown_prefix(&key).to_owned();
    let row = KeyRow { hash: &hash, prefix: &prefix, label: &ask.label, expires_at_ns, created_by };
    let added = store.add_key(workspace, row, now_ns, LIMITS).await?;
    let stored = ListedKey {
        id: key_id(&hash),
        prefix,
        label: ask.label.clone(),
        created_at_ns: now_ns,
        created_by: created_by.to_owned(),
        last_used_at_ns: None,
        expires_at_ns,
    };
    Ok((added == KeyAdded::Yes).then(|| NewKey { key: Secret::new(key), stored }))
}
