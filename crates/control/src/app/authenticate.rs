//! Turns a key into a caller. Keys are looked up by their SHA-256, never compared byte by byte; good ones are remembered
//! for a short time because every request brings one.

use std::{collections::HashMap, sync::Mutex};

use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{Caller, WorkspaceId};
use sha2::{Digest, Sha256};

use crate::{
    Control,
    limits::{KEY_CACHE_ENTRIES_MAX, KEY_CACHE_MAX_AGE},
};

/// What every API key starts with.
pub const KEY_PREFIX: &str = "pds_";
const KEY_HEX: usize = 32;

/// Good keys seen lately. Only hashes are kept.
#[derive(Default)]
pub struct KeyCache {
    entries: Mutex<HashMap<String, Remembered>>,
}

/// A good key.
#[derive(Clone)]
struct Remembered {
    workspace: WorkspaceId,
    since_ns: u64,
    expires_at_ns: Option<u64>,
}

impl KeyCache {
    fn get(&self, hash: &str, now_ns: u64) -> Option<WorkspaceId> {
        let entries = self.entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Remembered { workspace, since_ns, expires_at_ns } = entries.get(hash)?;
        let age_ns = u128::from(now_ns.saturating_sub(*since_ns));
        let good = age_ns < KEY_CACHE_MAX_AGE.as_nanos() && expires_at_ns.is_none_or(|end_ns| now_ns < end_ns);
        good.then(|| workspace.clone())
    }

    fn put(&self, hash: String, key: Remembered) {
        let mut entries = self.entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Starting over is simple and rare: only real keys get here.
        if entries.len() >= KEY_CACHE_ENTRIES_MAX {
            entries.clear();
        }
        entries.insert(hash, key);
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
        if let Some(workspace) = self.keys.get(&hash, now_ns) {
            return Ok(Caller::of(workspace));
        }
        let known = self.store.workspace_of_key(&hash).await?;
        let (workspace, expires_at_ns) = known.ok_or_else(|| unauthorized("unknown API key"))?;
        if expires_at_ns.is_some_and(|end_ns| end_ns <= now_ns) {
            return Err(unauthorized("this API key has expired"));
        }
        self.keys.put(hash, Remembered { workspace: workspace.clone(), since_ns: now_ns, expires_at_ns });
        Ok(Caller::of(workspace))
    }
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
        let key = Remembered { workspace: WorkspaceId("w".into()), since_ns: 0, expires_at_ns: None };
        cache.put("h".into(), key.clone());
        let max_ns = KEY_CACHE_MAX_AGE.as_nanos() as u64;
        assert!(cache.get("h", max_ns - 1).is_some());
        assert!(cache.get("h", max_ns).is_none());
        cache.put("h".into(), Remembered { expires_at_ns: Some(5), ..key });
        assert!(cache.get("h", 4).is_some() && cache.get("h", 5).is_none(), "an end counts at once");
    }
}
