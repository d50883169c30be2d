//! Callers whose credentials were checked recently, because every request carries one. Only hashes
//! of tokens are kept. What is revoked leaves the cache at once, and its open requests end.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use pandastack_wire_fleet::{Caller, CallerKey, WeakCallerKey};

use crate::{
    limits::{KEY_CACHE_ENTRIES_MAX, KEY_CACHE_MAX_AGE, KEY_WATCHES_MAX},
    store::Revoked,
};

/// Callers of recent requests, and watches for the revocation of their credentials.
#[derive(Default)]
pub struct CredentialCache {
    inner: Mutex<CacheState>,
}

#[derive(Default)]
struct CacheState {
    entries: HashMap<CacheKey, CachedCaller>,
    watches: HashMap<String, Watch>,
    /// Number of revocations. What was looked up before a revocation is not cached after it.
    revocations: u64,
}

/// What a caller is cached under.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CacheKey {
    /// The hash of the token.
    pub hash: String,
    /// The organisation that a person chose for the request.
    pub org: Option<String>,
}

/// A cached caller.
#[derive(Clone)]
pub struct CachedCaller {
    /// Its key is held here, so that all requests with one credential share it.
    pub caller: Caller,
    pub since_ns: u64,
    pub expires_at_ns: Option<u64>,
}

struct Watch {
    key: WeakCallerKey,
    /// Known after the look-up.
    user: Option<String>,
}

impl CachedCaller {
    fn user(&self) -> Option<&str> {
        self.caller.user.as_deref().map(|user| user.id.as_str())
    }
}

impl CredentialCache {
    pub fn get(&self, key: &CacheKey, now_ns: u64) -> Option<Caller> {
        let inner = self.lock();
        let CachedCaller { caller, since_ns, expires_at_ns } = inner.entries.get(key)?;
        let age_ns = u128::from(now_ns.saturating_sub(*since_ns));
        let good = age_ns < KEY_CACHE_MAX_AGE.as_nanos() && expires_at_ns.is_none_or(|end_ns| now_ns < end_ns);
        good.then(|| caller.clone())
    }

    /// Starts a look-up. From now on a revocation of the token marks the returned key. The number
    /// goes to `put`.
    pub fn watch(&self, hash: &str, id: impl FnOnce() -> String) -> (CallerKey, u64) {
        let mut inner = self.lock();
        if let Some(key) = inner.watches.get(hash).and_then(|watch| watch.key.upgrade()) {
            return (key, inner.revocations);
        }
        if inner.watches.len() >= KEY_WATCHES_MAX {
            inner.watches.retain(|_, watch| watch.key.upgrade().is_some());
        }
        let key = CallerKey::new(&id());
        inner.watches.insert(hash.to_owned(), Watch { key: key.downgrade(), user: None });
        (key, inner.revocations)
    }

    /// Caches a caller, unless anything was revoked since its look-up started.
    pub fn put(&self, key: CacheKey, cached: CachedCaller, revocations: u64) {
        let mut inner = self.lock();
        if let Some(watch) = inner.watches.get_mut(&key.hash) {
            watch.user = cached.user().map(str::to_owned);
        }
        if inner.revocations != revocations {
            return;
        }
        // Clearing everything is simple and rare: only valid credentials get here.
        if inner.entries.len() >= KEY_CACHE_ENTRIES_MAX {
            inner.entries.clear();
        }
        inner.entries.insert(key, cached);
    }

    /// Forgets what was revoked, and ends the requests that use it. The database already has the
    /// revocation.
    pub fn forget(&self, revoked: &[Revoked]) {
        if revoked.is_empty() {
            return;
        }
        let mut inner = self.lock();
        inner.revocations += 1;
        for subject in revoked {
            match subject {
                Revoked::Token(hash) => {
                    inner.entries.retain(|key, _| key.hash != *hash);
                    if let Some(key) = inner.watches.remove(hash).and_then(|watch| watch.key.upgrade()) {
                        key.revoke();
                    }
                }
                Revoked::User(id) => {
                    inner.entries.retain(|_, cached| cached.user() != Some(id));
                    let ended = inner.watches.extract_if(|_, watch| watch.user.as_deref() == Some(id));
                    for (_, watch) in ended {
                        if let Some(key) = watch.key.upgrade() {
                            key.revoke();
                        }
                    }
                }
                Revoked::CachedUser(id) => inner.entries.retain(|_, cached| cached.user() != Some(id)),
            }
        }
    }

    /// Forgets every caller, because revocations may have been missed. Open requests continue.
    pub fn clear(&self) {
        let mut inner = self.lock();
        inner.revocations += 1;
        inner.entries.clear();
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pandastack_model::Role;
    use pandastack_wire_fleet::{AuthMethod, CallerUser, WorkspaceId};

    use super::*;

    fn key(hash: &str) -> CacheKey {
        CacheKey { hash: hash.to_owned(), org: None }
    }

    fn cached(key: CallerKey, user: Option<&str>) -> CachedCaller {
        let user = user.map(|id| CallerUser {
            id: id.to_owned(),
            email: String::new(),
            operator: false,
            org: "o".to_owned(),
            role: Role::Member,
            method: AuthMethod::Session,
        });
        let caller = Caller { user: user.map(Arc::new), ..Caller::of(WorkspaceId("w".into())).with_key(key) };
        CachedCaller { caller, since_ns: 0, expires_at_ns: None }
    }

    #[test]
    fn a_cached_caller_ages() {
        let cache = CredentialCache::default();
        let entry = cached(CallerKey::default(), None);
        cache.put(key("h"), entry.clone(), 0);
        let max_ns = KEY_CACHE_MAX_AGE.as_nanos() as u64;
        assert!(cache.get(&key("h"), max_ns - 1).is_some());
        assert!(cache.get(&key("h"), max_ns).is_none());
        cache.put(key("h"), CachedCaller { expires_at_ns: Some(5), ..entry }, 0);
        assert!(cache.get(&key("h"), 4).is_some() && cache.get(&key("h"), 5).is_none(), "an end counts at once");
    }

    #[test]
    fn a_revocation_during_a_look_up_is_not_missed() {
        let cache = CredentialCache::default();
        let (watched, revocations) = cache.watch("h", || "key".into());
        // The row was read before the revocation; the result must not be used after it.
        cache.forget(&[Revoked::Token("h".to_owned())]);
        cache.put(key("h"), cached(watched.clone(), None), revocations);
        assert!(cache.get(&key("h"), 0).is_none());
        assert!(watched.is_revoked(), "and the request that looked it up ends");
        assert!(!cache.watch("h", || "key".into()).0.is_revoked(), "another look-up asks the database");
    }

    #[test]
    fn all_requests_of_a_user_end_and_nobody_elses() {
        let cache = CredentialCache::default();
        let mut watched = Vec::new();
        for (hash, user) in [("a", Some("ada")), ("b", Some("ada")), ("c", Some("bob")), ("d", None)] {
            let (one, revocations) = cache.watch(hash, || hash.into());
            cache.put(key(hash), cached(one.clone(), user), revocations);
            watched.push(one);
        }
        cache.forget(&[Revoked::CachedUser("ada".into())]);
        assert!(cache.get(&key("a"), 0).is_none() && cache.get(&key("c"), 0).is_some());
        assert!(watched.iter().all(|key| !key.is_revoked()));
        cache.forget(&[Revoked::User("ada".into())]);
        assert_eq!(watched.iter().map(CallerKey::is_revoked).collect::<Vec<_>>(), [true, true, false, false]);
        assert!(cache.get(&key("c"), 0).is_some() && cache.get(&key("d"), 0).is_some());
    }

    #[test]
    fn only_so_many_watches_are_kept() {
        let cache = CredentialCache::default();
        for number in 0..KEY_WATCHES_MAX + 10 {
            cache.watch(&number.to_string(), || "key".into());
        }
        assert!(cache.lock().watches.len() <= KEY_WATCHES_MAX);
    }
}
