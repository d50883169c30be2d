//! Cancel keys. Most clients cancel in plain TCP without a server name, and two databases may hand
//! out equal keys, as forks do. So each tunnel gets a key of the proxy's own, and the key leads
//! back to the database and to the key that it gave.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, PoisonError},
};

use pandastack_kit::random_bytes;
use subtle::ConstantTimeEq as _;

use crate::{
    databases::BackendPort,
    limits::{CANCEL_SECRET_BYTES_MAX, CANCEL_SECRET_BYTES_MIN},
    name::DatabaseName,
};

/// A key as BackendKeyData and cancel requests carry it. Its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct CancelKey {
    pub pid: [u8; 4],
    pub secret: Box<[u8]>,
}

impl std::fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CancelKey")
    }
}

/// Where a cancel request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelTarget {
    pub database: DatabaseName,
    pub port: BackendPort,
    /// The database's own key.
    pub key: CancelKey,
}

/// The keys of all tunnels: as many as there are tunnels at most. Clones share them.
#[derive(Clone, Default)]
pub struct CancelKeys(Arc<Mutex<HashMap<[u8; 4], IssuedKey>>>);

struct IssuedKey {
    secret: Box<[u8]>,
    target: CancelTarget,
}

/// Keeps a key valid.
pub struct KeyLease {
    keys: CancelKeys,
    pid: [u8; 4],
}

impl CancelKeys {
    /// Replaces the body of a BackendKeyData message by a key of the proxy. Returns nothing, and
    /// changes nothing, if the body is no key.
    pub fn issue(&self, database: DatabaseName, port: BackendPort, body: &mut [u8]) -> Option<KeyLease> {
        let (pid, secret) = body.split_first_chunk_mut::<4>()?;
        if !(CANCEL_SECRET_BYTES_MIN..=CANCEL_SECRET_BYTES_MAX).contains(&secret.len()) {
            return None;
        }
        let target = CancelTarget { database, port, key: CancelKey { pid: *pid, secret: (*secret).into() } };
        let random: [u8; CANCEL_SECRET_BYTES_MAX] = random_bytes();
        secret.copy_from_slice(&random[..secret.len()]);
        let issued = IssuedKey { secret: (*secret).into(), target };
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            *pid = random_pid();
            if let Entry::Vacant(free) = keys.entry(*pid) {
                free.insert(issued);
                return Some(KeyLease { keys: self.clone(), pid: *pid });
            }
        }
    }

    /// Finds where a cancel request goes.
    pub fn find(&self, key: &CancelKey) -> Option<CancelTarget> {
        let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let issued = keys.get(&key.pid)?;
        bool::from(issued.secret.ct_eq(&key.secret)).then(|| issued.target.clone())
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl Drop for KeyLease {
    fn drop(&mut self) {
        self.keys.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.pid);
    }
}

/// A number as process ids are: some drivers take it for a signed one that is not zero.
fn random_pid() -> [u8; 4] {
    let mut pid: [u8; 4] = random_bytes();
    pid[0] &= 0x7f;
    pid[3] |= 1;
    pid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_of_two_databases_stay_apart() {
        let keys = CancelKeys::default();
        let names = ["0b6f3c1e-9d0a-4a57-8a3c-2f1d7e5b9c44", "1b6f3c1e-9d0a-4a57-8a3c-2f1d7e5b9c44"];
        let theirs = [0, 0, 0, 9, 1, 2, 3, 4];
        let mut leases = Vec::new();
        for name in names {
            let mut body = theirs;
            let lease = keys.issue(name.parse().unwrap(), BackendPort::Pooled, &mut body).unwrap();
            assert_ne!(body, theirs);
            leases.push((name, lease, CancelKey { pid: body[..4].try_into().unwrap(), secret: body[4..].into() }));
        }
        for (name, _, key) in &leases {
            let target = keys.find(key).unwrap();
            assert_eq!(target.database.to_string(), *name);
            assert_eq!([&target.key.pid[..], &target.key.secret].concat(), theirs);
        }
        let mut guessed = leases[0].2.clone();
        guessed.secret[0] ^= 1;
        assert_eq!(keys.find(&guessed), None);
        guessed.secret = Box::default();
        assert_eq!(keys.find(&guessed), None);
        leases.clear();
        assert_eq!(keys.count(), 0);
    }

    #[test]
    fn a_body_that_is_no_key_stays() {
        let (keys, name) = (CancelKeys::default(), "0b6f3c1e-9d0a-4a57-8a3c-2f1d7e5b9c44".parse().unwrap());
        for length in [0, 3, 7, 261] {
            let mut body = vec![5; length];
            assert!(keys.issue(name, BackendPort::Session, &mut body).is_none());
            assert_eq!(body, vec![5; length]);
        }
        let mut long = vec![5; 260];
        assert!(keys.issue(name, BackendPort::Session, &mut long).is_some());
    }
}
