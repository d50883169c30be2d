//! Passwords: rules for new ones, and argon2id hashes in the PHC text form. A hash takes a core for
//! a tenth of a second and much memory, so a bounded number run at once, outside the async threads.

mod common;
mod rules;

use std::sync::Arc;

use argon2::{
    Algorithm, Argon2, Params, PasswordHasher as _, PasswordVerifier, Version,
    password_hash::{self, phc::PasswordHash},
};
use pandastack_kit::{Scope, ScopeError, random_bytes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{
    PASSWORD_BYTES_MAX, PASSWORD_CHECKS_MAX, PASSWORD_CHECKS_WAITING_MAX, PASSWORD_HASH_BYTES_MAX,
    PASSWORD_HASH_MEMORY_KIB_MAX, PASSWORD_HASH_PASSES_MAX,
};

pub use rules::{NewPassword, PasswordRefused};

/// Bytes of a hash and of a salt.
const HASH_BYTES: usize = 32;
const SALT_BYTES: usize = 16;

/// Memory and passes of a hash: more than OWASP's least (19 MiB, two passes), and as much as takes
/// about 100 ms of a server's core. Decision 30 has the figures.
const MEMORY_KIB: u32 = 32 * 1024;
const PASSES: u32 = 2;

/// How expensive a hash is, and how many may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordSettings {
    pub memory_kib: u32,
    /// Passes over the memory.
    pub iterations: u32,
    /// Hashes that run at once. Each takes a core and its memory.
    pub concurrent_max: usize,
    /// Callers that wait for one of them. Further ones are refused.
    pub waiting_max: usize,
}

impl Default for PasswordSettings {
    /// Half of the cores, because the others serve requests.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            memory_kib: MEMORY_KIB,
            iterations: PASSES,
            concurrent_max: (cores / 2).clamp(1, PASSWORD_CHECKS_MAX),
            waiting_max: PASSWORD_CHECKS_WAITING_MAX,
        }
    }
}

impl PasswordSettings {
    /// Hashes that protect nothing, for tests.
    pub fn cheap_for_tests() -> Self {
        Self { memory_kib: Params::MIN_M_COST, iterations: 1, concurrent_max: 2, waiting_max: 64 }
    }
}

/// Settings that no hash can have.
#[derive(Debug, thiserror::Error)]
#[error(
    "password hashes need 8 to {PASSWORD_HASH_MEMORY_KIB_MAX} KiB of memory, 1 to {PASSWORD_HASH_PASSES_MAX} \
     iterations, and at least one at a time"
)]
pub struct PasswordSettingsError;

/// Whether a password is the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordVerdict {
    Correct,
    Wrong,
}

/// Why a password could not be hashed or verified.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// Nothing was done. The caller may try again after a moment.
    #[error("too many passwords are being checked; try again in a few seconds")]
    Busy,
    #[error("the stored password is not readable")]
    Stored,
    #[error("hash a password")]
    Hash(#[source] password_hash::Error),
    #[error(transparent)]
    Ended(#[from] ScopeError),
}

/// Hashes and verifies passwords.
pub struct PasswordHasher {
    params: Params,
    /// Verified for users that do not exist, so that they take as long as others.
    nobody: PasswordHash,
    running: Arc<Semaphore>,
    /// Permits of those that run and those that wait.
    admitted: Arc<Semaphore>,
    scope: Scope,
}

impl PasswordHasher {
    pub fn new(settings: &PasswordSettings, scope: Scope) -> Result<Self, PasswordSettingsError> {
        let PasswordSettings { memory_kib, iterations, concurrent_max, waiting_max } = *settings;
        let too_much = memory_kib > PASSWORD_HASH_MEMORY_KIB_MAX || iterations > PASSWORD_HASH_PASSES_MAX;
        let admitted_max = concurrent_max.saturating_add(waiting_max);
        if too_much || concurrent_max == 0 || admitted_max > Semaphore::MAX_PERMITS {
            return Err(PasswordSettingsError);
        }
        let params = Params::new(memory_kib, iterations, 1, Some(HASH_BYTES)).map_err(|_| PasswordSettingsError)?;
        // Salt and hash are zeros, which no password is known to give.
        let (salt, hash) = ("A".repeat(22), "A".repeat(43));
        let nobody = format!("$argon2id$v=19$m={memory_kib},t={iterations},p=1${salt}${hash}");
        Ok(Self {
            params,
            nobody: PasswordHash::new(&nobody).map_err(|_| PasswordSettingsError)?,
            running: Arc::new(Semaphore::new(concurrent_max)),
            admitted: Arc::new(Semaphore::new(admitted_max)),
            scope,
        })
    }

    /// Hashes a new password. The result is stored.
    pub async fn hash(&self, password: &NewPassword) -> Result<String, PasswordError> {
        self.rehash(password.reveal()).await
    }

    /// Hashes a password that was just verified, with the present settings. Rules for new passwords
    /// do not apply: they may have changed since it was chosen.
    pub async fn rehash(&self, password: &str) -> Result<String, PasswordError> {
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, self.params.clone());
        let (password, salt) = (password.to_owned(), random_bytes::<SALT_BYTES>());
        let work = move || argon2.hash_password_with_salt(password.as_bytes(), &salt);
        let hashed: password_hash::Result<PasswordHash> = self.run(work).await?;
        hashed.map(|hash| hash.to_string()).map_err(PasswordError::Hash)
    }

    /// Verifies a password. Without a stored one, because the user does not exist or has none, the
    /// answer takes as long and is `Wrong`.
    pub async fn verify(&self, password: &str, stored: Option<&str>) -> Result<PasswordVerdict, PasswordError> {
        let known = stored.map(|stored| read(stored).ok_or(PasswordError::Stored)).transpose()?;
        // No stored password is that long; a shorter text in its place costs the same.
        let (password, known) = if password.len() > PASSWORD_BYTES_MAX { ("", None) } else { (password, known) };
        let (hash, exists) = match known {
            Some(hash) => (hash, true),
            None => (self.nobody.clone(), false),
        };
        let password = password.to_owned();
        let verified = self.run(move || Argon2::default().verify_password(password.as_bytes(), &hash)).await?;
        match verified {
            Ok(()) if exists => Ok(PasswordVerdict::Correct),
            Ok(()) | Err(password_hash::Error::PasswordInvalid) => Ok(PasswordVerdict::Wrong),
            Err(error) => Err(PasswordError::Hash(error)),
        }
    }

    /// Tells whether a stored password was hashed with other settings. Call `rehash` after the next
    /// successful login.
    pub fn needs_rehash(&self, stored: &str) -> bool {
        let same = |hash: &PasswordHash| {
            let version = hash.version == Some(Version::V0x13.into());
            version && Params::try_from(hash).is_ok_and(|params| params == self.params)
        };
        !read(stored).is_some_and(|hash| same(&hash))
    }

    /// Runs work outside the async threads. A caller that hangs up leaves the work running, so the
    /// work itself holds the permits.
    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, PasswordError> {
        let admitted = self.admitted.clone().try_acquire_owned().map_err(|_| PasswordError::Busy)?;
        let running = self.running.clone().acquire_owned().await.map_err(|_| PasswordError::Busy)?;
        let permits: [OwnedSemaphorePermit; 2] = [running, admitted];
        let work = move || {
            let done = work();
            drop(permits);
            done
        };
        Ok(self.scope.block("hash a password", work).await?)
    }
}

/// Reads a stored password, if it is argon2id within bounds.
fn read(stored: &str) -> Option<PasswordHash> {
    if stored.len() > PASSWORD_HASH_BYTES_MAX {
        return None;
    }
    let hash = PasswordHash::new(stored).ok()?;
    let params = Params::try_from(&hash).ok()?;
    let within = params.m_cost() <= PASSWORD_HASH_MEMORY_KIB_MAX && params.t_cost() <= PASSWORD_HASH_PASSES_MAX;
    let whole = hash.salt.is_some() && hash.hash.is_some();
    (hash.algorithm.as_str() == Algorithm::Argon2id.as_str() && within && whole).then_some(hash)
}

#[cfg(test)]
mod tests;
