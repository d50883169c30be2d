//! Turns a key into a caller. Keys are looked up by their SHA-256, never compared byte by byte;
//! good ones are remembered for a short time because every request brings one. A revoked key is
//! forgotten at once, and its open requests are told.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{Caller, CallerKey, WeakCallerKey, WorkspaceId};
use sha2::{Digest, Sha256};

use crate::{
    Control,
    limits::{KEY_CACHE_ENTRIES_MAX, KEY_CACHE_MAX_AGE, KEY_WATCHES_MAX},
    store::key_id,
};

/// What every API key starts with.
pub const KEY_PREFIX: &str = "pds_";
const KEY_HEX: usize = 32;

/// Good keys seen lately, and who waits for the revocation of a key. Only hashes are kept.
#[derive(Default)]
pub struct KeyCache {
    inner: Mutex<Remembering>,
}

#[derive(Default)]
struct Remembering {
    entries: HashMap<String, Remembered>,
    watches: HashMap<String, WeakCallerKey>,
    /// Grows with every revocation. A key that was looked up before one is not remembered after it.
    revocations: u64,
}

/// A good key.
#[derive(Clone)]
struct Remembered {
    workspace: WorkspaceId,
    since_ns: u64,
    expires_at_ns: Option<u64>,
    /// Held, so that requests with this key share one.
    key: CallerKey,
}

impl KeyCache {
    fn get(&self, hash: &str, now_ns: u64) -> Option<(WorkspaceId, CallerKey)> {
        let inner = self.lock();
        let Remembered { workspace, since_ns, expires_at_ns, key } = inner.entries.get(hash)?;
        let age_ns = u128::from(now_ns.saturating_sub(*since_ns));
        let good = age_ns < KEY_CACHE_MAX_AGE.as_nanos() && expires_at_ns.is_none_or(|end_ns| now_ns < end_ns);
        good.then(|| (workspace.clone(), key.clone()))
    }

    /// Begins a look-up: from now on a revocation of the key is noticed by who holds what this
    /// gives.
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

    /// Remembers a good key, unless one was revoked since its look-up began: it may be that one.
    fn put(&self, hash: String, key: Remembered, revocations: u64) {
        let mut inner = self.lock();
        if inner.revocations != revocations {
            return;
        }
        // Starting over is simple and rare: only real keys get here.
        if inner.entries.len() >= KEY_CACHE_ENTRIES_MAX {
            inner.entries.clear();
        }
        inner.entries.insert(hash, key);
    }

    /// Forgets revoked keys and tells whoever was let in with them. The database knows of the
    /// revocation already.
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

    fn lock(&self) -> MutexGuard<'_, Remembering> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Control {
    /// Finds out who sent a token.
    pub(crate) async fn caller(&self, token: Option<&str>) -> Result<Caller, Fault> {
        let token = token.ok_or_else(|| unauthorized("no credential: send Authorization: Bearer <API key>"))?;
        if !is_key(token) {
            return Err(unauthorized("not an API key: a key is pds_ and 32 lowercase hex digits"));
        }
        let (hash, now_ns) = (key_hash(token), self.clock.now_ns());
        if let Some((workspace, key)) = self.keys.get(&hash, now_ns) {
            return Ok(Caller::of(workspace).with_key(key));
        }
        let (key, revocations) = self.keys.watch(&hash);
        let known = self.store.key_by_hash(&hash).await?.ok_or_else(|| unauthorized("unknown API key"))?;
        if known.revoked {
            return Err(revoked_key());
        }
        if known.expires_at_ns.is_some_and(|end_ns| end_ns <= now_ns) {
            return Err(unauthorized("this API key has expired"));
        }
        let (workspace, expires_at_ns) = (known.workspace, known.expires_at_ns);
        self.note_use(&hash, now_ns);
        let remembered = Remembered { workspace: workspace.clone(), since_ns: now_ns, expires_at_ns, key: key.clone() };
        self.keys.put(hash, remembered, revocations);
        Ok(Caller::of(workspace).with_key(key))
    }

    /// Writes down that a key is used: once for as long as it is remembered, and beside the
    /// request.
    fn note_use(&self, hash: &str, now_ns: u64) {
        let (store, hash) = (self.store.clone(), hash.to_owned());
        self.scope.start("key use", async move {
            if let Err(error) = store.touch_key(&hash, now_ns).await {
                tracing::debug!(%error, "the use of a key was not noted");
            }
        });
    }
}

/// What is said to the bearer of a revoked key.
pub fn revoked_key() -> Fault {
    unauthorized("this API key was revoked")
}

/// Says whether text has the shape of a key.
pub fn is_key(text: &str) -> bool {
    let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.strip_prefix(KEY_PREFIX).is_some_and(|rest| rest.len() == KEY_HEX && rest.bytes().all(hex))
}

/// Gives the form in which a key is kept.
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
        let key = Remembered { workspace, since_ns: 0, expires_at_ns: None, key };
        cache.put("h".into(), key.clone(), 0);
        let max_ns = KEY_CACHE_MAX_AGE.as_nanos() as u64;
        assert!(cache.get("h", max_ns - 1).is_some());
        assert!(cache.get("h", max_ns).is_none());
        cache.put("h".into(), Remembered { expires_at_ns: Some(5), ..key }, 0);
        assert!(cache.get("h", 4).is_some() && cache.get("h", 5).is_none(), "an end counts at once");
    }

    #[test]
    fn a_revocation_during_a_look_up_is_not_missed() {
        let cache = KeyCache::default();
        let (key, revocations) = cache.watch("h");
        // The row was read before it was revoked; what was read must not be believed afterwards.
        cache.forget(&["h".to_owned()]);
        let workspace = WorkspaceId("w".into());
        let remembered = Remembered { workspace, since_ns: 0, expires_at_ns: None, key: key.clone() };
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
