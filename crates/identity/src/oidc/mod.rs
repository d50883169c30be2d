//! Logins at any OpenID provider: the authorization code flow with PKCE, state and nonce. The
//! provider is found by discovery, and its ID token is verified as a user JWT is.

mod exchange;
pub mod metadata;
mod pending;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use pandastack_dial::http::{HttpClient, HttpError};
use pandastack_kit::{Clock, Scope, Secret};
use serde::Deserialize;
use url::Url;

use self::{
    exchange::{CodeExchange, exchange},
    metadata::{ProviderMetadata, metadata_url, shown},
};
use crate::{
    cache::{DocumentCache, DocumentError, DocumentSource},
    email::EmailAddress,
    fetch::{FetchDocument, ProviderUrlError, provider_url, web_url},
    jwt::{JwtClaims, JwtError, JwtSettings, JwtVerifier},
    limits::{OIDC_CODE_BYTES_MAX, OIDC_STATE_BYTES_MAX, PROVIDER_METADATA_BYTES_MAX},
    secret::same_secret,
};

pub use pending::{PendingLogin, PendingLoginError};

/// The operator's settings for one provider.
#[derive(Clone)]
pub struct OidcSettings {
    /// Exactly as the provider writes it, also with or without a slash at the end.
    pub issuer: String,
    pub client_id: String,
    pub client_secret: Secret<String>,
    /// Our page that the browser returns to.
    pub redirect_url: String,
    /// Scopes besides `openid`. `OidcSettings::SCOPES` are usual.
    pub scopes: Vec<String>,
}

impl OidcSettings {
    /// The scopes that make a provider tell the e-mail address and the name.
    pub const SCOPES: [&'static str; 2] = ["email", "profile"];
}

/// Logins at one provider.
pub struct OidcClient {
    settings: OidcSettings,
    metadata: DocumentCache<ProviderMetadata>,
    /// The verifier for the key set that the provider named last.
    verifier: Mutex<Option<(Url, Arc<JwtVerifier>)>>,
    http: Arc<HttpClient>,
    clock: Arc<dyn Clock>,
    scope: Scope,
}

/// A login that has begun. The caller stores `pending`, binds it to the browser with a cookie, and
/// sends the browser to the URL.
#[derive(Debug)]
pub struct StartedLogin {
    pub authorize_url: Url,
    pub pending: PendingLogin,
}

/// The query with which the browser returns.
#[derive(Clone, Default, Deserialize)]
pub struct LoginCallback {
    pub state: Option<String>,
    pub code: Option<String>,
    pub error: Option<String>,
    pub error_description: Option<String>,
    pub iss: Option<String>,
}

/// Who logged in. Issuer and subject together identify the user for ever; an e-mail address may
/// change hands, and proves nothing unless it is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcIdentity {
    pub issuer: String,
    pub subject: String,
    pub email: Option<EmailAddress>,
    pub email_verified: bool,
    pub name: Option<String>,
}

/// Why a login failed.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    #[error(transparent)]
    Unavailable(#[from] DocumentError),
    #[error("exchange the code at the identity provider")]
    Exchange(#[source] HttpError),
    #[error("the identity provider refused the login: {code} {description}")]
    Denied { code: String, description: String },
    #[error("the answer of the identity provider has no valid {0}; start the login again")]
    BadCallback(&'static str),
    #[error("the login was not started here; start it again")]
    WrongState,
    #[error("the login took too long; start it again")]
    TooLate,
    #[error("the answer is from another identity provider; start the login again")]
    WrongProvider,
    #[error("the identity provider did not accept the code ({status}): {reason}")]
    CodeRefused { status: u16, reason: String },
    #[error("the identity provider sent no valid token answer")]
    BadTokenAnswer,
    #[error("the ID token is not accepted")]
    IdToken(#[source] JwtError),
    #[error("the ID token is not for this login")]
    WrongNonce,
    #[error("the ID token was issued to another client")]
    WrongParty,
}

impl OidcError {
    /// Whether the provider could not be reached, and a later try may succeed.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Exchange(_) => true,
            Self::IdToken(error) => error.is_unavailable(),
            _ => false,
        }
    }
}

/// Hides the code.
impl fmt::Debug for LoginCallback {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "LoginCallback {{ error: {:?}, hidden }}", self.error)
    }
}

impl OidcClient {
    /// Makes a client. The provider is asked at the first login.
    pub fn new(
        settings: OidcSettings,
        http: Arc<HttpClient>,
        clock: Arc<dyn Clock>,
        scope: Scope,
    ) -> Result<Self, ProviderUrlError> {
        provider_url(&settings.issuer)?;
        web_url(&settings.redirect_url)?;
        let issuer = settings.issuer.clone();
        let source = DocumentSource {
            what: "configuration",
            url: provider_url(&metadata_url(&issuer))?,
            bytes_max: PROVIDER_METADATA_BYTES_MAX,
            read: Box::new(move |bytes| ProviderMetadata::read(bytes, &issuer)),
        };
        let metadata = DocumentCache::new(source, http.clone(), clock.clone(), scope.clone());
        Ok(Self { settings, metadata, verifier: Mutex::default(), http, clock, scope })
    }

    /// Begins a login.
    pub async fn start(&self) -> Result<StartedLogin, OidcError> {
        let metadata = self.metadata.get().await?;
        let pending = PendingLogin::start(&self.settings.issuer, self.clock.now_ns());
        let scopes = self.settings.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid");
        let scopes: Vec<_> = std::iter::once("openid").chain(scopes).collect();
        let mut authorize_url = metadata.authorization_endpoint.clone();
        authorize_url
            .query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &self.settings.redirect_url)
            .append_pair("scope", &scopes.join(" "))
            .append_pair("state", &pending.state)
            .append_pair("nonce", &pending.nonce)
            .append_pair("code_challenge", &pending.challenge())
            .append_pair("code_challenge_method", "S256");
        Ok(StartedLogin { authorize_url, pending })
    }

    /// Completes a login. The caller removes the pending login from its store before, so that a
    /// callback is answered once.
    pub async fn finish(&self, pending: PendingLogin, callback: &LoginCallback) -> Result<OidcIdentity, OidcError> {
        let metadata = self.metadata.get().await?;
        let code = self.checked_code(&pending, callback, &metadata)?;
        let asked = CodeExchange { metadata: &metadata, settings: &self.settings, code, verifier: &pending.verifier };
        let id_token = exchange(&self.http, asked).await?;
        let claims = self.verifier(&metadata.jwks_uri).verify(&id_token).await.map_err(OidcError::IdToken)?;
        check_claims(&claims, &pending.nonce, &self.settings.client_id)?;
        let JwtClaims { subject, email, email_verified, name, .. } = claims;
        Ok(OidcIdentity { issuer: self.settings.issuer.clone(), subject, email, email_verified, name })
    }

    /// Checks everything that can be checked before the provider is asked again.
    fn checked_code<'a>(
        &self,
        pending: &PendingLogin,
        callback: &'a LoginCallback,
        metadata: &ProviderMetadata,
    ) -> Result<&'a str, OidcError> {
        let state = callback.state.as_deref().filter(|state| state.len() <= OIDC_STATE_BYTES_MAX);
        if !same_secret(state.ok_or(OidcError::BadCallback("state"))?, &pending.state) {
            return Err(OidcError::WrongState);
        }
        if self.clock.now_ns() >= pending.expires_at_ns {
            return Err(OidcError::TooLate);
        }
        let names_other = callback.iss.as_ref().is_some_and(|issuer| *issuer != self.settings.issuer);
        let hides_name = metadata.names_itself && callback.iss.is_none();
        if pending.issuer != self.settings.issuer || names_other || hides_name {
            return Err(OidcError::WrongProvider);
        }
        if let Some(code) = &callback.error {
            let description = callback.error_description.as_deref().map(shown).unwrap_or_default();
            return Err(OidcError::Denied { code: shown(code), description });
        }
        let code = callback.code.as_deref().filter(|code| !code.is_empty() && code.len() <= OIDC_CODE_BYTES_MAX);
        code.ok_or(OidcError::BadCallback("code"))
    }

    /// Returns the verifier for a key set. Its cache lasts as long as the provider names that set.
    fn verifier(&self, jwks_uri: &Url) -> Arc<JwtVerifier> {
        let mut kept = self.verifier.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((url, verifier)) = &*kept
            && url == jwks_uri
        {
            return verifier.clone();
        }
        let settings = JwtSettings {
            jwks_url: jwks_uri.as_str().to_owned(),
            issuer: Some(self.settings.issuer.clone()),
            audience: Some(self.settings.client_id.clone()),
        };
        let fetch: Arc<dyn FetchDocument> = self.http.clone();
        let verifier = JwtVerifier::at(jwks_uri.clone(), settings, fetch, self.clock.clone(), self.scope.clone());
        let verifier = Arc::new(verifier);
        *kept = Some((jwks_uri.clone(), verifier.clone()));
        verifier
    }
}

/// Checks what makes a JWT the ID token of this login and this client.
fn check_claims(claims: &JwtClaims, nonce: &str, client_id: &str) -> Result<(), OidcError> {
    if !claims.nonce.as_deref().is_some_and(|given| same_secret(given, nonce)) {
        return Err(OidcError::WrongNonce);
    }
    match claims.authorized_party.as_deref() {
        Some(party) if party != client_id => Err(OidcError::WrongParty),
        None if claims.audience.len() > 1 => Err(OidcError::WrongParty),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
