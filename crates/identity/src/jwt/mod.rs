//! Verification of user JWTs with the keys of an identity provider. Accepts ES256 and RS256 only.
//! `keys` checks signatures, `claims` reads tokens, the cache fetches keys.

pub mod claims;
pub mod keys;

use std::sync::Arc;

use pandastack_kit::{Clock, Scope};
use url::Url;

use self::{
    claims::{ExpectedClaims, UncheckedToken},
    keys::{KeySet, SignatureCheck},
};
use crate::{
    cache::{DocumentCache, DocumentError, DocumentSource},
    fetch::{FetchDocument, ProviderUrlError, provider_url},
    limits::{JWT_BYTES_MAX, KEY_SET_BYTES_MAX},
};

pub use claims::JwtClaims;

const NS_PER_SECOND: u64 = 1_000_000_000;

/// The operator's settings for user JWTs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtSettings {
    /// Where the provider publishes its keys.
    pub jwks_url: String,
    /// The `iss` that tokens must have, if it is to be checked.
    pub issuer: Option<String>,
    /// A value that the `aud` of tokens must contain, if it is to be checked.
    pub audience: Option<String>,
}

/// Verifies tokens of one provider.
pub struct JwtVerifier {
    keys: DocumentCache<KeySet>,
    issuer: Option<String>,
    audience: Option<String>,
    clock: Arc<dyn Clock>,
}

/// Why a token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    #[error("the token has more than {JWT_BYTES_MAX} bytes")]
    TooLong,
    #[error("the token is not a valid JWT: {0}")]
    Malformed(&'static str),
    #[error("the token's algorithm is not allowed; ES256 and RS256 are")]
    AlgorithmNotAllowed,
    #[error("the token names no key")]
    KeyNotNamed,
    #[error("the token was signed with an unknown key")]
    UnknownKey,
    #[error("the token's algorithm does not match its key")]
    WrongKeyType,
    #[error("the token's signature is not valid")]
    BadSignature,
    #[error("the token has no claim {0:?}")]
    MissingClaim(&'static str),
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    NotYetValid,
    #[error("the token is from another issuer")]
    WrongIssuer,
    #[error("the token is for another audience")]
    WrongAudience,
    #[error(transparent)]
    Unavailable(#[from] DocumentError),
}

impl JwtError {
    /// Whether the provider failed, and not the token.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

impl JwtVerifier {
    /// Makes a verifier. The keys are fetched for the first token.
    pub fn new(
        settings: JwtSettings,
        fetch: Arc<dyn FetchDocument>,
        clock: Arc<dyn Clock>,
        scope: Scope,
    ) -> Result<Self, ProviderUrlError> {
        let url = provider_url(&settings.jwks_url)?;
        Ok(Self::at(url, settings, fetch, clock, scope))
    }

    /// Makes a verifier with the keys of an address that was checked before.
    pub(crate) fn at(
        url: Url,
        settings: JwtSettings,
        fetch: Arc<dyn FetchDocument>,
        clock: Arc<dyn Clock>,
        scope: Scope,
    ) -> Self {
        let read = Box::new(KeySet::read);
        let source = DocumentSource { what: "key set", url, bytes_max: KEY_SET_BYTES_MAX, read };
        let JwtSettings { issuer, audience, .. } = settings;
        Self { keys: DocumentCache::new(source, fetch, clock.clone(), scope), issuer, audience, clock }
    }

    /// Verifies a token and returns what it says.
    pub async fn verify(&self, token: &str) -> Result<JwtClaims, JwtError> {
        let token = UncheckedToken::parse(token)?;
        let keys = self.keys.get().await?;
        let mut check = keys.check(&token.signed());
        if check == SignatureCheck::UnknownKey {
            let newer = self.keys.newer_than(&keys).await?;
            if !Arc::ptr_eq(&newer, &keys) {
                check = newer.check(&token.signed());
            }
        }
        match check {
            SignatureCheck::Valid => {}
            SignatureCheck::Invalid => return Err(JwtError::BadSignature),
            SignatureCheck::UnknownKey => return Err(JwtError::UnknownKey),
            SignatureCheck::WrongKeyType => return Err(JwtError::WrongKeyType),
            SignatureCheck::KeyNotNamed => return Err(JwtError::KeyNotNamed),
        }
        let expected = ExpectedClaims {
            now_s: self.clock.now_ns() / NS_PER_SECOND,
            issuer: self.issuer.as_deref(),
            audience: self.audience.as_deref(),
        };
        token.claims(&expected)
    }
}

#[cfg(test)]
mod tests;
