//! Whole logins at the test provider, over HTTP on loopback, and each way in which one is refused.

use std::time::Duration;

use pandastack_dial::{AddressPolicy, Dialer, TrustRoots, http::HttpLimits};

use super::*;
use crate::{
    jwt::keys::JwtAlgorithm,
    limits::{PENDING_LOGIN_MAX, PROVIDER_DOCUMENT_FRESH, PROVIDER_FETCH_PAUSE},
    provider::{OidcProvider, ProviderSetup, ProviderUser, TokenDefect},
    testing::TestClock,
};

struct Setup {
    provider: OidcProvider,
    client: OidcClient,
    clock: Arc<TestClock>,
}

impl Setup {
    async fn new() -> Self {
        Self::with(|_| {}, |_| {}).await
    }

    async fn with(provide: impl FnOnce(&mut ProviderSetup), change: impl FnOnce(&mut OidcSettings)) -> Self {
        let (clock, scope) = (Arc::new(TestClock::new()), Scope::new());
        let mut setup = ProviderSetup::new(clock.clone(), scope.clone());
        provide(&mut setup);
        let mut settings = OidcSettings {
            issuer: String::new(),
            client_id: setup.client_id.clone(),
            client_secret: Secret::new(setup.client_secret.clone()),
            redirect_url: setup.redirect_url.clone(),
            scopes: OidcSettings::SCOPES.map(str::to_owned).to_vec(),
        };
        let provider = OidcProvider::start(setup).await.unwrap();
        settings.issuer = provider.issuer();
        change(&mut settings);
        let dialer = Dialer::new(AddressPolicy::Private, TrustRoots::Host, scope.clone());
        let http = Arc::new(HttpClient::new(dialer, scope.clone(), HttpLimits::default()));
        let client = OidcClient::new(settings, http, clock.clone(), scope).unwrap();
        Self { provider, client, clock }
    }

    /// Starts a login, and lets the browser return from the provider.
    async fn returned(&self) -> (PendingLogin, LoginCallback) {
        let StartedLogin { authorize_url, pending } = self.client.start().await.unwrap();
        let callback = self.provider.sign_in(&authorize_url).await.unwrap();
        // As the caller stores it.
        (PendingLogin::from_json(&pending.to_json()).unwrap(), callback)
    }

    async fn login(&self) -> Result<OidcIdentity, OidcError> {
        let (pending, callback) = self.returned().await;
        self.client.finish(pending, &callback).await
    }
}

#[tokio::test]
async fn a_user_logs_in() {
    for proof in ["client_secret_basic", "client_secret_post"] {
        for algorithm in [JwtAlgorithm::Es256, JwtAlgorithm::Rs256] {
            let setup = Setup::with(|provider| provider.client_proof = proof, |_| {}).await;
            setup.provider.set_algorithm(algorithm);
            let expected = OidcIdentity {
                issuer: setup.provider.issuer(),
                subject: "user-1".to_owned(),
                email: Some(EmailAddress::parse("ada@example.org").unwrap()),
                email_verified: true,
                name: Some("Ada Lovelace".to_owned()),
            };
            assert_eq!(setup.login().await.unwrap(), expected, "{proof} {algorithm:?}");
        }
    }
}

#[tokio::test]
async fn the_provider_is_described_once() {
    let setup = Setup::new().await;
    for _ in 0..3 {
        setup.login().await.unwrap();
    }
    assert_eq!(setup.provider.requests("/.well-known/openid-configuration"), 1);
    assert_eq!((setup.provider.requests("/keys"), setup.provider.requests("/token")), (1, 3));
}

#[tokio::test]
async fn another_user_is_another_identity() {
    let setup = Setup::new().await;
    let user = ProviderUser { subject: "user-2".to_owned(), email_verified: false, ..ProviderUser::default() };
    setup.provider.set_user(user);
    let identity = setup.login().await.unwrap();
    assert_eq!((identity.subject.as_str(), identity.email_verified), ("user-2", false));
}

#[tokio::test]
async fn a_token_with_a_defect_is_refused() {
    let setup = Setup::new().await;
    for algorithm in [JwtAlgorithm::Es256, JwtAlgorithm::Rs256] {
        setup.provider.set_algorithm(algorithm);
        for (defect, expected) in [
            (TokenDefect::WrongNonce, "the ID token is not for this login"),
            (TokenDefect::NoNonce, "the ID token is not for this login"),
            (TokenDefect::WrongAudience, "the token is for another audience"),
            (TokenDefect::SecondAudience, "the ID token was issued to another client"),
            (TokenDefect::WrongParty, "the ID token was issued to another client"),
            (TokenDefect::WrongIssuer, "the token is from another issuer"),
            (TokenDefect::Expired, "the token has expired"),
            (TokenDefect::WrongKey, "the token's signature is not valid"),
            (TokenDefect::UnknownKid, "the token was signed with an unknown key"),
            (TokenDefect::NoKid, "the token names no key"),
            (TokenDefect::WrongKeyType, "the token's algorithm does not match its key"),
            (TokenDefect::AlgorithmNone, "the token's algorithm is not allowed"),
            (TokenDefect::HmacWithPublicKey, "the token's algorithm is not allowed"),
            (TokenDefect::Missing, "the identity provider sent no valid token answer"),
        ] {
            setup.provider.set_defect(Some(defect));
            let refused = setup.login().await.unwrap_err();
            let text = crate::cache::in_one_line(&refused);
            assert!(text.contains(expected), "{defect:?}: {text}");
            assert!(!refused.is_unavailable(), "{defect:?}");
        }
        setup.provider.set_defect(None);
        setup.login().await.unwrap();
    }
}

#[tokio::test]
async fn a_code_is_exchanged_once() {
    let setup = Setup::new().await;
    let (pending, callback) = setup.returned().await;
    setup.client.finish(pending.clone(), &callback).await.unwrap();
    let replayed = setup.client.finish(pending, &callback).await.unwrap_err();
    assert!(matches!(replayed, OidcError::CodeRefused { status: 400, .. }), "{replayed}");
    assert!(replayed.to_string().contains("invalid_grant code not valid"), "{replayed}");
}

#[tokio::test]
async fn a_stolen_code_is_worth_nothing_without_its_verifier() {
    let setup = Setup::new().await;
    let (_, stolen) = setup.returned().await;
    let (pending, own) = setup.returned().await;
    let mixed = LoginCallback { code: stolen.code, ..own };
    let refused = setup.client.finish(pending, &mixed).await.unwrap_err();
    assert!(matches!(refused, OidcError::CodeRefused { .. }), "{refused}");
}

#[tokio::test]
async fn a_callback_must_belong_to_the_login() {
    let setup = Setup::new().await;
    let (pending, callback) = setup.returned().await;
    let check = async |change: &dyn Fn(&mut LoginCallback), expected: &str| {
        let mut changed = callback.clone();
        change(&mut changed);
        let refused = setup.client.finish(pending.clone(), &changed).await.unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
    };
    check(&|callback| callback.state = None, "no valid state").await;
    check(&|callback| callback.state = Some("x".repeat(1000)), "no valid state").await;
    check(&|callback| callback.state = Some("0".repeat(48)), "was not started here").await;
    check(&|callback| callback.code = None, "no valid code").await;
    check(&|callback| callback.code = Some(String::new()), "no valid code").await;
    check(&|callback| callback.code = Some("x".repeat(5000)), "no valid code").await;
    check(&|callback| callback.iss = Some("https://id.example".to_owned()), "another identity provider").await;
    check(&|callback| callback.iss = None, "another identity provider").await;
    let other = PendingLogin { issuer: "https://id.example".to_owned(), ..pending.clone() };
    assert!(matches!(setup.client.finish(other, &callback).await, Err(OidcError::WrongProvider)));
    assert_eq!(setup.provider.requests("/token"), 0, "the provider was not asked");
    setup.client.finish(pending, &callback).await.unwrap();
}

#[tokio::test]
async fn a_login_ends_after_ten_minutes() {
    let setup = Setup::new().await;
    let (pending, callback) = setup.returned().await;
    setup.clock.advance(PENDING_LOGIN_MAX - Duration::from_nanos(1));
    setup.client.finish(pending, &callback).await.unwrap();
    let (pending, callback) = setup.returned().await;
    setup.clock.advance(PENDING_LOGIN_MAX);
    assert!(matches!(setup.client.finish(pending, &callback).await, Err(OidcError::TooLate)));
}

#[tokio::test]
async fn a_refusal_of_the_provider_is_told() {
    let setup = Setup::new().await;
    setup.provider.set_denies(true);
    let refused = setup.login().await.unwrap_err();
    assert_eq!(refused.to_string(), "the identity provider refused the login: access_denied not you");
}

#[tokio::test]
async fn a_wrong_client_secret_is_refused() {
    for proof in ["client_secret_basic", "client_secret_post"] {
        let wrong = |settings: &mut OidcSettings| settings.client_secret = Secret::new("wrong".to_owned());
        let setup = Setup::with(|provider| provider.client_proof = proof, wrong).await;
        let refused = setup.login().await.unwrap_err();
        assert!(matches!(refused, OidcError::CodeRefused { status: 401, .. }), "{proof}: {refused}");
    }
}

#[tokio::test]
async fn rotated_keys_are_found() {
    let setup = Setup::new().await;
    setup.login().await.unwrap();
    setup.provider.rotate();
    setup.clock.advance(PROVIDER_FETCH_PAUSE);
    setup.login().await.unwrap();
    assert_eq!(setup.provider.requests("/keys"), 2);
}

#[tokio::test]
async fn a_provider_that_is_down_is_told_apart_from_a_refusal() {
    let setup = Setup::new().await;
    setup.provider.set_down(true);
    let refused = setup.client.start().await.unwrap_err();
    assert!(refused.is_unavailable() && refused.to_string().contains("configuration"), "{refused}");
    setup.provider.set_down(false);
    setup.clock.advance(PROVIDER_FETCH_PAUSE);
    let (pending, callback) = setup.returned().await;
    setup.provider.set_down(true);
    // The description is still known, the exchange fails.
    setup.clock.advance(Duration::from_secs(60));
    let refused = setup.client.finish(pending, &callback).await.unwrap_err();
    assert!(matches!(refused, OidcError::Exchange(_)) && refused.is_unavailable(), "{refused}");
}

#[tokio::test]
async fn a_known_provider_still_starts_logins_while_it_is_down() {
    let setup = Setup::new().await;
    setup.login().await.unwrap();
    setup.provider.set_down(true);
    setup.clock.advance(2 * PROVIDER_DOCUMENT_FRESH);
    let started = setup.client.start().await.unwrap();
    assert!(started.authorize_url.as_str().starts_with(&format!("{}/authorize?", setup.provider.issuer())));
}

#[tokio::test]
async fn the_issuer_must_be_the_providers_own() {
    let setup = Setup::with(|_| {}, |settings| settings.issuer.push('/')).await;
    let refused = setup.client.start().await.unwrap_err();
    assert!(refused.to_string().contains("it is of the issuer"), "{refused}");
}

#[tokio::test]
async fn the_browser_gets_a_complete_request() {
    let setup = Setup::with(|_| {}, |settings| settings.scopes.push("openid".to_owned())).await;
    let StartedLogin { authorize_url, pending } = setup.client.start().await.unwrap();
    let of = |name: &str| {
        let found: Vec<_> = authorize_url.query_pairs().filter(|(key, _)| key == name).collect();
        assert_eq!(found.len(), 1, "{name}");
        found[0].1.to_string()
    };
    assert_eq!((of("response_type"), of("client_id")), ("code".to_owned(), "pandastack".to_owned()));
    assert_eq!((of("scope"), of("code_challenge_method")), ("openid email profile".to_owned(), "S256".to_owned()));
    assert_eq!((of("state"), of("nonce")), (pending.state.clone(), pending.nonce.clone()));
    assert_eq!(of("code_challenge"), pending.challenge());
    assert!(!authorize_url.as_str().contains(&pending.verifier), "the verifier stays here");
    assert!(!authorize_url.as_str().contains("secret"), "and so does the client's secret");
}

#[test]
fn settings_are_checked() {
    let settings = |issuer: &str, redirect: &str| OidcSettings {
        issuer: issuer.to_owned(),
        client_id: "c".to_owned(),
        client_secret: Secret::new("s".to_owned()),
        redirect_url: redirect.to_owned(),
        scopes: Vec::new(),
    };
    let scope = Scope::new();
    let dialer = Dialer::new(AddressPolicy::Private, TrustRoots::Host, scope.clone());
    let http = Arc::new(HttpClient::new(dialer, scope.clone(), HttpLimits::default()));
    let tried = |issuer: &str, redirect: &str| {
        OidcClient::new(settings(issuer, redirect), http.clone(), Arc::new(TestClock::new()), scope.clone()).err()
    };
    assert_eq!(tried("https://id.example", "http://10.0.0.1:3000/callback"), None);
    assert!(matches!(tried("http://id.example", "https://a.example/c"), Some(ProviderUrlError::NotSecure { .. })));
    assert!(matches!(tried("https://id.example", "/callback"), Some(ProviderUrlError::Malformed { .. })));
    assert_eq!(tried("https://id.example", "https://a.example/#x"), Some(ProviderUrlError::Decorated));
}

#[test]
fn debug_output_hides_the_code() {
    let callback = LoginCallback { code: Some("hidden code".to_owned()), ..LoginCallback::default() };
    assert_eq!(format!("{callback:?}"), "LoginCallback { error: None, hidden }");
}
