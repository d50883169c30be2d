//! Delays after failed logins, for each account and for each address, in memory. Says when a login
//! may be tried; never looks at passwords. After a restart everybody starts with no failures.

mod counts;

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pandastack_kit::Clock;

use self::counts::FailureCounts;
use crate::{
    email::EmailAddress,
    limits::{
        LOGIN_ACCOUNTS_MAX, LOGIN_ADDRESSES_MAX, LOGIN_DELAY_MAX, LOGIN_DELAY_MIN, LOGIN_FAILURES_FORGOTTEN,
        LOGIN_FAILURES_FREE,
    },
    secret::SecretHash,
};

/// How failures delay further logins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThrottleSettings {
    /// Failures of an account before its first delay.
    pub account_failures_free: u32,
    /// Failures of an address before its first delay. Many people may share an address.
    pub address_failures_free: u32,
    /// The first delay. Each further failure doubles it.
    pub delay_min: Duration,
    pub delay_max: Duration,
    /// Time without a failure after which earlier ones are forgotten.
    pub forgotten_after: Duration,
    /// Accounts and addresses that are remembered. Past that the oldest are forgotten.
    pub accounts_max: usize,
    pub addresses_max: usize,
}

impl Default for ThrottleSettings {
    fn default() -> Self {
        Self {
            account_failures_free: LOGIN_FAILURES_FREE,
            address_failures_free: LOGIN_FAILURES_FREE,
            delay_min: LOGIN_DELAY_MIN,
            delay_max: LOGIN_DELAY_MAX,
            forgotten_after: LOGIN_FAILURES_FORGOTTEN,
            accounts_max: LOGIN_ACCOUNTS_MAX,
            addresses_max: LOGIN_ADDRESSES_MAX,
        }
    }
}

/// Counts failed logins.
pub struct LoginThrottle {
    settings: ThrottleSettings,
    clock: Arc<dyn Clock>,
    counts: Mutex<Counts>,
}

struct Counts {
    /// By the hash of the e-mail address, so that memory has no list of users.
    accounts: FailureCounts<[u8; 32]>,
    addresses: FailureCounts<IpAddr>,
}

/// A login that must wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many failed logins; try again in {}s", retry_after.as_secs_f32().ceil())]
pub struct Throttled {
    pub retry_after: Duration,
}

/// A login that is being tried. It counts as failed from the start, so that tries at the same time
/// count too; one that is dropped without a result stays counted.
#[must_use = "a login without a result counts as failed"]
pub struct LoginAttempt<'a> {
    throttle: &'a LoginThrottle,
    account: [u8; 32],
    address: IpAddr,
    started_ns: u64,
    /// When the account and the address failed before.
    account_before_ns: Option<u64>,
    address_before_ns: Option<u64>,
}

impl LoginThrottle {
    pub fn new(settings: ThrottleSettings, clock: Arc<dyn Clock>) -> Self {
        let counts = Counts {
            accounts: FailureCounts::new(settings.accounts_max),
            addresses: FailureCounts::new(settings.addresses_max),
        };
        Self { settings, clock, counts: Mutex::new(counts) }
    }

    /// Begins a login, or says how long to wait. A login that must wait does not count.
    pub fn start(&self, email: &EmailAddress, address: IpAddr) -> Result<LoginAttempt<'_>, Throttled> {
        let account = *SecretHash::of(email.as_str()).as_bytes();
        let address = network(address);
        let now_ns = self.clock.now_ns();
        let mut counts = self.lock();
        let forgotten = self.settings.forgotten_after;
        let by_account = counts.accounts.recent(&account, now_ns, forgotten);
        let by_address = counts.addresses.recent(&address, now_ns, forgotten);
        let wait =
            [(by_account, self.settings.account_failures_free), (by_address, self.settings.address_failures_free)]
                .into_iter()
                .map(|((failures, since_last), free)| self.delay(failures, free).saturating_sub(since_last))
                .max();
        match wait {
            Some(retry_after) if retry_after > Duration::ZERO => Err(Throttled { retry_after }),
            _ => {
                let account_before_ns = counts.accounts.add(account, now_ns, forgotten);
                let address_before_ns = counts.addresses.add(address, now_ns, forgotten);
                let started_ns = now_ns;
                Ok(LoginAttempt { throttle: self, account, address, started_ns, account_before_ns, address_before_ns })
            }
        }
    }

    /// The delay after so many failures.
    fn delay(&self, failures: u32, free: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(free.max(1)) else { return Duration::ZERO };
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.settings.delay_min.saturating_mul(factor).min(self.settings.delay_max)
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoginAttempt<'_> {
    /// Clears the account. The address keeps its earlier failures: otherwise attackers could clear
    /// theirs by logging in to an account of their own.
    pub fn succeeded(self) {
        let mut counts = self.throttle.lock();
        counts.accounts.clear(&self.account);
        counts.addresses.take_back(&self.address, self.started_ns, self.address_before_ns);
    }

    /// Takes the attempt back: no password was compared, because we were busy or failed.
    pub fn undecided(self) {
        let mut counts = self.throttle.lock();
        counts.accounts.take_back(&self.account, self.started_ns, self.account_before_ns);
        counts.addresses.take_back(&self.address, self.started_ns, self.address_before_ns);
    }

    /// Keeps the attempt counted. The same as dropping it, but says so.
    pub fn failed(self) {}
}

/// The part of an address that one subscriber has: all of IPv4, the first half of IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests;
