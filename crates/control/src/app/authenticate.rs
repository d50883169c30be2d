//! Turns an API key into a caller. Keys are looked up by their SHA-256, never compared byte by
//! byte. Valid keys are cached for a short time, because every request carries one. A revoked key
//! leaves the cache at once, and its open requests end.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use pandastack_door::revoked_key;
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{Caller, CallerKey, WeakCallerKey, WorkspaceId};
use sha2::{Digest, Sha256};

use crate::{
    Control,
    limits::{KEY_CACHE_ENTRIES_MAX, KEY_CACHE_MAX_AGE, KEY_WATCHES_MAX},
    store::key_id,
};

/// Prefix of every API key.
pub const KEY_PREFIX: &str = "pds_";
const KEY_HEX: usize = 32;

/// Valid keys used recently, and watches for the revocation of keys. Only hashes are kept.
#[derive(Default)]
pub struct KeyCache {
    inner: Mutex<KeyCacheState>,
}

#[derive(Default)]
struct KeyCacheState {
    entries: HashMap<String, CachedKey>,
    watches: HashMap<String, WeakCallerKey>,
    /// Number of revocations. A key that was looked up before a revocation is not cached after it.
    revocations: u64,
}

/// A cached valid key.
#[derive(Clone)]
struct CachedKey {
    workspace: WorkspaceId,
    since_ns: u64,
    expires_at_ns: Option<u64>,
    /// Held so that all requests with this key share one `CallerKey`.
    key: CallerKey,
}

impl KeyCache {
    fn get(&self, hash: &str, now_ns: u64) -> Option<(WorkspaceId, CallerKey)> {
        let inner = self.lock();
        let CachedKey { workspace, since_ns, expires_at_ns, key } = inner.entries.get(hash)?;
        let age_ns = u128::from(now_ns.saturating_sub(*since_ns));
        let good = age_ns < KEY_CACHE_MAX_AGE.as_nanos() && expires_at_ns.is_none_or(|end_ns| now_ns < end_ns);
        good.then(|| (workspace.clone(), key.clone()))
    }

    /// Starts a look-up. From now on a revocation of the key marks the returned `CallerKey`.
    fn watch(&self, hash: &str) -> (CallerKey, u64) {
        let mut inner = self.lock();
        if let Some(key) = inner.watches.get(hash).and_then(WeakCallerKey::upgrade) {
            return (key, inner.revocations);
        }
        if inner.watches.len() >= KEY_WATCHES_MAX {
            inner.watches.retain(|_, key| key.upgrade().is_some());
        }
        let key = CallerKey::new(&key_id(hash));
        inner.watches.insert(hash.to_owned(), key.downgrade());
        (key, inner.revocations)
    }

    /// Caches a valid key, unless any key was revoked since its look-up started.
    fn put(&self, hash: String, key: CachedKey, revocations: u64) {
        let mut inner = self.lock();
        if inner.revocations != revocations {
            return;
        }
        // Clearing everything is simple and rare: only valid keys get here.
        if inner.entries.len() >= KEY_CACHE_ENTRIES_MAX {
            inner.entries.clear();
        }
        inner.entries.insert(hash, key);
    }

    /// Removes revoked keys from the cache and ends the requests that use them. The database
    /// already has the revocation.
    pub fn forget(&self, hashes: &[String]) {
        let mut inner = self.lock();
        inner.revocations += 1;
        for hash in hashes {
            inner.entries.remove(hash);
            if let Some(key) = inner.watches.remove(hash).as_ref().and_then(WeakCallerKey::upgrade) {
                key.revoke();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, KeyCacheState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Control {
    /// Authenticates the sender of a token.
    pub(crate) async fn caller(&self, token: Option<&str>) -> Result<Caller, Fault> {
        let token = token.ok_or_else(|| unauthorized("no credential: send Authorization: Bearer <API key>"))?;
        if !is_key(token) {
            return Err(unauthorized("not a valid API key: a key is pds_ followed by 32 lowercase hex digits"));
        }
        let (hash, now_ns) = (key_hash(token), self.clock.now_ns());
        if let Some((workspace, key)) = self.access.keys.get(&hash, now_ns) {
            return Ok(Caller::of(workspace).with_key(key));
        }
        let (key, revocations) = self.access.keys.watch(&hash);
        let known = self.store.key_by_hash(&hash).await?.ok_or_else(|| unauthorized("unknown API key"))?;
        if known.revoked {
            return Err(revoked_key());
        }
        if known.expires_at_ns.is_some_and(|end_ns| end_ns <= now_ns) {
            return Err(unauthorized("this API key has expired"));
        }
        let (workspace, expires_at_ns) = (known.workspace, known.expires_at_ns);
        self.note_use(&hash, now_ns);
        let remembered = CachedKey { workspace: workspace.clone(), since_ns: now_ns, expires_at_ns, key: key.clone() };
        self.access.keys.put(hash, remembered, revocations);
        Ok(Caller::of(workspace).with_key(key))
    }

    /// Records the use of a key: once per cache entry, and without delaying the request.
    fn note_use(&self, hash: &str, now_ns: u64) {
        let (store, hash) = (self.store.clone(), hash.to_owned());
        self.scope.start("key use", async move {
            if let Err(error) = store.touch_key(&hash, now_ns).await {
                tracing::debug!(%error, "could not record an API key's last use");
            }
        });
    }
}

/// Returns whether text has the form of a key.
pub fn is_key(text: &str) -> bool {
    let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.strip_prefix(KEY_PREFIX).is_some_and(|rest| rest.len() == KEY_HEX && rest.bytes().all(hex))
}

/// Returns the hash under which a key is stored.
pub fn key_hash(key: &str) -> String {
    Sha256::digest(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unauthorized(reason: &str) -> Fault {
    Fault::new(FaultKind::Unauthorized, "unauthorized", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_one_shape() {
        assert!(is_key("pds_0123456789abcdef0123456789abcdef"));
        for bad in ["", "pds_", "pds_0123456789ABCDEF0123456789abcdef", "pds_0123456789abcdef0123456789abcde", "x"] {
            assert!(!is_key(bad), "{bad}");
        }
        assert_eq!(key_hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn a_remembered_key_ages() {
        let cache = KeyCache::default();
        let (workspace, key) = (WorkspaceId("w".into()), CallerKey::default());
        let key = CachedKey { workspace, since_ns: 0, expires_at_ns: None, key };
        cache.put("h".into(), key.clone(), 0);
        let max_ns = KEY_CACHE_MAX_AGE.as_nanos() as u64;
        assert!(cache.get("h", max_ns - 1).is_some());
        assert!(cache.get("h", max_ns).is_none());
        cache.put("h".into(), CachedKey { expires_at_ns: Some(5), ..key }, 0);
        assert!(cache.get("h", 4).is_some() && cache.get("h", 5).is_none(), "an end counts at once");
    }

    #[test]
    fn a_revocation_during_a_look_up_is_not_missed() {
        let cache = KeyCache::default();
        let (key, revocations) = cache.watch("h");
        // The row was read before the revocation; the result must not be used after it.
        cache.forget(&["h".to_owned()]);
        let workspace = WorkspaceId("w".into());
        let remembered = CachedKey { workspace, since_ns: 0, expires_at_ns: None, key: key.clone() };
        cache.put("h".into(), remembered, revocations);
        assert!(cache.get("h", 0).is_none());
        assert!(key.is_revoked(), "and the request that looked it up ends");
        assert!(!cache.watch("h").0.is_revoked(), "another look-up asks the database");
    }

    #[test]
    fn only_so_many_watches_are_kept() {
        let cache = KeyCache::default();
        for number in 0..KEY_WATCHES_MAX + 10 {
            cache.watch(&number.to_string());
        }
        assert!(cache.lock().watches.len() <= KEY_WATCHES_MAX);
    }
}
