//! A login that has begun: what must be remembered until the browser returns from the provider.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use pandastack_kit::{random_bytes, random_hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::limits::{PENDING_LOGIN_BYTES_MAX, PENDING_LOGIN_MAX};

/// A pending login. It contains secrets: store it where the user's browser cannot read it, or seal
/// it, and use it once. It belongs to the browser that began it: bind it to a cookie of that
/// browser. Otherwise attackers could hand over a link that signs its reader in as themselves.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingLogin {
    /// The issuer that the browser was sent to.
    pub(super) issuer: String,
    pub(super) state: String,
    pub(super) nonce: String,
    /// The secret behind the challenge (PKCE).
    pub(super) verifier: String,
    pub(super) expires_at_ns: u64,
}

/// A stored pending login that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored login is not readable; start the login again")]
pub struct PendingLoginError;

impl PendingLogin {
    pub(super) fn start(issuer: &str, now_ns: u64) -> Self {
        Self {
            issuer: issuer.to_owned(),
            state: random_hex::<24>(),
            nonce: random_hex::<24>(),
            verifier: URL_SAFE_NO_PAD.encode(random_bytes::<32>()),
            expires_at_ns: now_ns.saturating_add(PENDING_LOGIN_MAX.as_nanos() as u64),
        }
    }

    /// Returns the `state` that the browser brings back. It tells the logins of one browser apart;
    /// who knows it is not thereby that browser.
    pub fn state(&self) -> &str {
        &self.state
    }

    /// Returns when the login ends, in nanoseconds since the epoch.
    pub fn expires_at_ns(&self) -> u64 {
        self.expires_at_ns
    }

    /// Writes the login as JSON, to be stored.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a struct of texts and a number is always JSON")
    }

    /// Reads what `to_json` wrote.
    pub fn from_json(text: &str) -> Result<Self, PendingLoginError> {
        if text.len() > PENDING_LOGIN_BYTES_MAX {
            return Err(PendingLoginError);
        }
        serde_json::from_str(text).map_err(|_| PendingLoginError)
    }

    /// The PKCE challenge (S256).
    pub(super) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.as_bytes()))
    }
}

impl fmt::Debug for PendingLogin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { issuer, expires_at_ns, .. } = self;
        write!(out, "PendingLogin {{ issuer: {issuer:?}, expires_at_ns: {expires_at_ns}, hidden }}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_login_is_stored_and_read_again() {
        let login = PendingLogin::start("https://id.example", 7);
        assert_eq!(PendingLogin::from_json(&login.to_json()), Ok(login.clone()));
        assert_eq!(login.expires_at_ns(), 600_000_000_007);
        assert_eq!((login.state().len(), login.verifier.len()), (48, 43));
        let other = PendingLogin::start("https://id.example", 7);
        assert!(login.state != other.state && login.nonce != other.nonce && login.verifier != other.verifier);
    }

    #[test]
    fn what_is_no_pending_login_is_refused() {
        let login = PendingLogin::start("https://id.example", 0).to_json();
        let long = format!("{login}{}", " ".repeat(PENDING_LOGIN_BYTES_MAX));
        for text in ["", "{}", "[]", &login[1..], &long] {
            assert_eq!(PendingLogin::from_json(text), Err(PendingLoginError));
        }
    }

    #[test]
    fn debug_output_has_no_secrets() {
        let login = PendingLogin::start("https://id.example", 0);
        let shown = format!("{login:?}");
        for secret in [&login.state, &login.nonce, &login.verifier] {
            assert!(!shown.contains(secret.as_str()), "{shown}");
        }
    }

    /// The example of RFC 7636, appendix B.
    #[test]
    fn the_challenge_is_the_standards() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        let login = PendingLogin { verifier, ..PendingLogin::start("https://id.example", 0) };
        assert_eq!(login.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
