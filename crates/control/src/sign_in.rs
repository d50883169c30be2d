//! How people prove who they are to this server: settings of the operator, and the checks that are
//! made of them.

use std::sync::Arc;

use pandastack_dial::{
    AddressPolicy, Dialer, TrustRoots,
    http::{HttpClient, HttpLimits},
};
use pandastack_door::ProxyTrust;
use pandastack_identity::{
    JwtSettings, JwtVerifier, LoginThrottle, OidcClient, OidcSettings, PasswordHasher, PasswordSettings,
    PasswordSettingsError, ProviderUrlError, ThrottleSettings,
};
use pandastack_kit::{Clock, Scope};

use crate::{
    app::StubAccount,
    limits::{LOGIN_ADDRESS_FAILURES_FREE, PROVIDER_MAX},
};

/// What the operator sets up for logins.
#[derive(Clone, Default)]
pub struct SignInSettings {
    pub passwords: PasswordSettings,
    /// Tokens of an identity provider that are accepted as they are.
    pub jwt: Option<JwtSettings>,
    /// An identity provider at which people log in.
    pub oidc: Option<OidcSettings>,
    /// Where the web dashboard is. Links for people begin with it; by default with the address of
    /// the request.
    pub dashboard_url: Option<String>,
    /// Whether the client's address is in `X-Forwarded-For`, because a proxy is in front.
    pub proxy: ProxyTrust,
    pub mode: AuthMode,
}

/// Whether credentials are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthMode {
    #[default]
    Checked,
    /// Development: a request without an API key is one of a fixed user. Every program of this
    /// machine can then do everything.
    Stub,
}

/// Why logins could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    #[error(transparent)]
    Passwords(#[from] PasswordSettingsError),
    #[error("the address of the identity provider")]
    Provider(#[from] ProviderUrlError),
}

/// The checks of people's credentials. Clones are the same one.
#[derive(Clone)]
pub(crate) struct SignIn {
    pub(crate) passwords: Arc<PasswordHasher>,
    pub(crate) throttle: Arc<LoginThrottle>,
    pub(crate) jwt: Option<Arc<JwtVerifier>>,
    pub(crate) oidc: Option<Arc<OidcClient>>,
    pub(crate) dashboard_url: Option<Arc<str>>,
    pub(crate) proxy: ProxyTrust,
    pub(crate) stub: Option<Arc<StubAccount>>,
}

impl SignIn {
    pub(crate) fn new(settings: SignInSettings, clock: Arc<dyn Clock>, scope: &Scope) -> Result<Self, SignInError> {
        let SignInSettings { passwords, jwt, oidc, dashboard_url, proxy, mode } = settings;
        // The operator named the provider, so it may be on a private network.
        let dialer = Dialer::new(AddressPolicy::Private, TrustRoots::default(), scope.clone());
        let limits = HttpLimits { answer_max: PROVIDER_MAX, ..HttpLimits::default() };
        let client = Arc::new(HttpClient::new(dialer, scope.clone(), limits));
        let jwt = jwt.map(|settings| JwtVerifier::new(settings, client.clone(), clock.clone(), scope.clone()));
        let oidc = oidc.map(|settings| OidcClient::new(settings, client.clone(), clock.clone(), scope.clone()));
        let throttle = ThrottleSettings { address_failures_free: LOGIN_ADDRESS_FAILURES_FREE, ..Default::default() };
        Ok(Self {
            passwords: Arc::new(PasswordHasher::new(&passwords, scope.clone())?),
            throttle: Arc::new(LoginThrottle::new(throttle, clock)),
            jwt: jwt.transpose()?.map(Arc::new),
            oidc: oidc.transpose()?.map(Arc::new),
            dashboard_url: dashboard_url.map(|url| url.trim_end_matches('/').into()),
            proxy,
            stub: (mode == AuthMode::Stub).then(Arc::default),
        })
    }
}
