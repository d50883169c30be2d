//! Certificates from an ACME server (RFC 8555). One certificate for each domain, so that a domain
//! that cannot be proven does not hold up the others. The old certificate is served until the new
//! one is loaded. A start with stored certificates that are not due sends no request.

mod directory;
mod domain;
mod hook;
mod order;
mod schedule;
mod store;
mod transport;

use std::{
    error::Error as _,
    fmt::Write as _,
    io,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use pandastack_dial::{TrustRoots, http::HttpError};
use pandastack_kit::Scope;

pub use directory::{DirectoryUrl, DirectoryUrlError};
pub use domain::{AcmeDomain, AcmeDomainError};
pub use hook::{DnsHook, HookError};
pub use store::AcmeStore;

use crate::{
    CertificateError, CertificateSet, CertificateSlot, HttpChallenges,
    limits::{ACME_ORDER_MAX, ACME_RETRY_UNREACHABLE_MIN},
};
use schedule::{back_off, fraction, renew_at};

/// The directory of Let's Encrypt.
pub const ACME_DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Longest sleep. The wall clock may jump, and a due certificate must not wait for a timer that was
/// set before.
const NAP_MAX: Duration = Duration::from_secs(600);

/// What the operator chose.
#[derive(Clone, Debug)]
pub struct AcmeSettings {
    pub domains: Vec<AcmeDomain>,
    pub email: Option<String>,
    pub directory: DirectoryUrl,
    /// Certificate authorities to trust for the directory itself.
    pub roots: TrustRoots,
    pub hook: Option<DnsHook>,
    /// Whether challenges over HTTP reach this server.
    pub http: bool,
    /// Folder for the account and the certificates.
    pub folder: PathBuf,
}

impl AcmeSettings {
    /// Checks that every domain has a way to be proven.
    pub fn check(&self) -> Result<(), AcmeError> {
        for domain in &self.domains {
            match (domain.is_wildcard(), &self.hook, self.http) {
                (true, None, _) => return Err(AcmeError::NoHook(domain.clone())),
                (false, None, false) => return Err(AcmeError::NoChallenge(domain.clone())),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum AcmeError {
    #[error("{0} needs a DNS challenge: set --acme-dns-hook")]
    NoHook(AcmeDomain),
    #[error("{0} needs port 80 or a DNS challenge: set --http-redirect or --acme-dns-hook")]
    NoChallenge(AcmeDomain),
    #[error("the ACME server offers no {kind} challenge for this domain; check what it supports")]
    NotOffered { kind: &'static str },
    #[error(transparent)]
    Hook(#[from] HookError),
    #[error("the ACME server could not check the domain: {why}; {next}")]
    Unproven { why: String, next: &'static str },
    #[error("the ACME server refused: {0}")]
    Server(#[from] instant_acme::Error),
    #[error("keep {what} in {}: {cause}", path.display())]
    Store { what: &'static str, path: PathBuf, cause: io::Error },
    #[error("the ACME server sent a certificate that cannot be used: {0}")]
    Certificate(#[from] CertificateError),
    #[error("the order took more than {} seconds", ACME_ORDER_MAX.as_secs())]
    Slow,
    #[error("the server stops")]
    Stopped,
}

impl AcmeError {
    /// Tells whether the ACME server could not be asked at all, which costs none of its limits.
    fn is_unreachable(&self) -> bool {
        matches!(self, AcmeError::Server(instant_acme::Error::Other(cause)) if cause.is::<HttpError>())
    }

    /// The error with all its causes.
    fn whole(&self) -> String {
        let (mut text, mut cause) = (self.to_string(), self.source());
        while let Some(error) = cause {
            let more = error.to_string();
            if !text.contains(&more) {
                let _ = write!(text, ": {more}");
            }
            cause = error.source();
        }
        text
    }
}

/// Gets and renews certificates.
pub struct Acme {
    settings: AcmeSettings,
    store: AcmeStore,
    challenges: HttpChallenges,
    scope: Scope,
}

/// One domain's certificate, and when to act next.
struct Renewal {
    domain: AcmeDomain,
    slot: CertificateSlot,
    failures: u32,
    due: SystemTime,
}

impl Acme {
    /// Opens the store.
    pub fn open(settings: AcmeSettings, challenges: HttpChallenges, scope: Scope) -> Result<Self, AcmeError> {
        settings.check()?;
        let store = AcmeStore::open(&settings.folder, settings.directory.as_str())?;
        Ok(Self { settings, store, challenges, scope })
    }

    /// Adds a place for each domain to a set, with the stored certificate if there is one, and
    /// starts to renew.
    pub fn start(self, set: &CertificateSet) {
        let renewals = self.settings.domains.iter().map(|domain| {
            let slot = set.add(vec![domain.to_string()]);
            let due = match self.store.certificate(domain) {
                Ok(Some(served)) => {
                    let due = renew_at(served.validity(), fraction());
                    slot.put(served);
                    due
                }
                Ok(None) => SystemTime::UNIX_EPOCH,
                Err(error) => {
                    tracing::warn!("the stored certificate of {domain} is not used: {}", error.whole());
                    SystemTime::UNIX_EPOCH
                }
            };
            Renewal { domain: domain.clone(), slot, failures: 0, due }
        });
        let renewals = renewals.collect();
        let scope = self.scope.clone();
        scope.start("acme", self.run(renewals));
    }

    async fn run(self, mut renewals: Vec<Renewal>) {
        let stop = self.scope.token();
        while !stop.is_cancelled() {
            let Some(next) = renewals.iter_mut().min_by_key(|renewal| renewal.due) else { return };
            match next.due.duration_since(SystemTime::now()) {
                Ok(wait) if !wait.is_zero() => tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(wait.min(NAP_MAX)) => {}
                },
                _ => self.renew(next).await,
            }
        }
    }

    /// Gets one certificate and serves it, or sets the time of the next attempt.
    async fn renew(&self, renewal: &mut Renewal) {
        let domain = &renewal.domain;
        let (obtained, wanted) = self.obtain(domain).await;
        match obtained {
            Ok(served) => {
                renewal.due = renew_at(served.validity(), fraction());
                renewal.failures = 0;
                let until = served.validity().last_day().to_string();
                tracing::info!(%domain, until, "got a certificate");
                renewal.slot.put(served);
            }
            Err(AcmeError::Stopped) => {}
            Err(error) => {
                let usual = back_off(renewal.failures, error.is_unreachable(), fraction());
                let wait = wanted.unwrap_or_default().max(usual).max(ACME_RETRY_UNREACHABLE_MIN);
                renewal.failures = renewal.failures.saturating_add(1);
                renewal.due = SystemTime::now() + wait;
                let (again, why) = (wait.as_secs(), error.whole());
                let state = match renewal.slot.current() {
                    Some(_) => "the old one is still served",
                    None => "clients cannot connect to it by https yet",
                };
                tracing::error!("no new certificate for {domain}; {state}; next attempt in {again} s: {why}");
            }
        }
    }
}
