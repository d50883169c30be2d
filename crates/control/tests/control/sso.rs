//! Logins at an identity provider, and tokens that it signs. The provider is a real one on this
//! computer: discovery, key set, authorization with PKCE, tokens signed with ES256 or RS256.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use pandastack_control::{JwtSettings, OidcSettings, SignInSettings};
use pandastack_identity::{
    LoginCallback,
    provider::{OidcProvider, ProviderSetup, ProviderUser},
};
use pandastack_kit::{Clock, Scope, Secret};
use reqwest::{Client, redirect::Policy};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use url::Url;

use crate::{
    people::{PASSWORD, invited, known, operator, send},
    receiver::Traveller,
    rig::{Rig, answer, sign_in},
};

const VERIFIER: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG";

/// A server that accepts tokens and logins of a provider.
pub struct Sso {
    pub provider: OidcProvider,
    pub rig: Rig,
    browser: Client,
    pub scope: Scope,
    pub clock: Arc<Traveller>,
}

impl Sso {
    pub async fn start(redirect_url: &str) -> Self {
        let (scope, clock) = (Scope::new(), Arc::new(Traveller::default()));
        let setup = ProviderSetup::new(clock.clone() as Arc<dyn Clock>, scope.clone());
        let setup = ProviderSetup { redirect_url: redirect_url.to_owned(), ..setup };
        let (client_id, client_secret) = (setup.client_id.clone(), setup.client_secret.clone());
        let provider = OidcProvider::start(setup).await.unwrap();
        let settings = SignInSettings {
            jwt: Some(JwtSettings {
                jwks_url: provider.jwks_url(),
                issuer: Some(provider.issuer()),
                audience: Some(client_id.clone()),
            }),
            oidc: Some(OidcSettings {
                issuer: provider.issuer(),
                client_id,
                client_secret: Secret::new(client_secret),
                redirect_url: redirect_url.to_owned(),
                scopes: OidcSettings::SCOPES.map(str::to_owned).to_vec(),
            }),
            ..sign_in()
        };
        let rig = Rig::start_signing_in(settings, clock.clone()).await;
        let browser = Client::builder().no_proxy().redirect(Policy::none()).build().unwrap();
        Self { provider, rig, browser, scope, clock }
    }

    /// Begins a login. Returns the provider's address and the cookie.
    async fn begin(&self, redirect: &str) -> Result<(Url, String), (u16, Value)> {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
        let query = [("redirect", redirect), ("challenge", &challenge)];
        let url = Url::parse_with_params(&format!("{}/v1/auth/oidc/start", self.rig.url), query).unwrap();
        let response = self.browser.get(url).send().await.unwrap();
        if response.status() != 303 {
            return Err((response.status().as_u16(), response.json().await.unwrap()));
        }
        let cookie = response.headers()["set-cookie"].to_str().unwrap();
        assert!(cookie.contains("HttpOnly; SameSite=Lax"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Ok((response.headers()["location"].to_str().unwrap().parse().unwrap(), cookie))
    }

    /// Ends a login in the browser. Returns where it is sent, or the refusal.
    async fn end(&self, callback: &LoginCallback, cookie: &str) -> Result<Url, (u16, Value)> {
        let mut url = Url::parse(&format!("{}/v1/auth/oidc/callback", self.rig.url)).unwrap();
        let LoginCallback { state, code, error, error_description, iss } = callback;
        let told = [("error", error), ("error_description", error_description)];
        for (name, value) in [("state", state), ("code", code), ("iss", iss)].into_iter().chain(told) {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        let response = self.browser.get(url).header("cookie", cookie).send().await.unwrap();
        if response.status() != 303 {
            return Err((response.status().as_u16(), response.json().await.unwrap()));
        }
        Ok(response.headers()["location"].to_str().unwrap().parse().unwrap())
    }

    async fn log_in(&self) -> (u16, Value) {
        let (url, cookie) = self.begin("http://127.0.0.1:9/done").await.unwrap();
        let callback = self.provider.sign_in(&url).await.unwrap();
        let next = self.end(&callback, &cookie).await.unwrap();
        assert!(next.as_str().starts_with("http://127.0.0.1:9/done?code="), "{next}");
        let code = next.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
        send(&self.rig, "/v1/auth/oidc/token", json!({"code": code, "verifier": VERIFIER})).await
    }
}

pub const CALLBACK: &str = "http://127.0.0.1:8080/v1/auth/oidc/callback";

#[tokio::test]
async fn a_login_at_a_provider_gives_a_session_and_a_personal_org() {
    let sso = Sso::start(CALLBACK).await;
    let (_, methods) = answer(sso.rig.http.get(format!("{}/v1/auth", sso.rig.url))).await;
    assert_eq!(methods["oidc"], json!(true));
    let (status, begun) = sso.log_in().await;
    assert_eq!(status, 200, "{begun}");
    let ada = known(&sso.rig, begun).await;
    let (_, me) = ada.get(&sso.rig, "/v1/me").await;
    assert_eq!((&me["auth_method"], &me["current_org"]["role"]), (&json!("session"), &json!("owner")), "{me}");
    let again = known(&sso.rig, sso.log_in().await.1).await;
    assert_eq!((again.id, again.org), (ada.id.clone(), ada.org.clone()), "the same person again");
    // A token that the provider signed is the same person too.
    let token = sso.provider.issue(None);
    let (status, me) = answer(sso.rig.http.get(format!("{}/v1/me", sso.rig.url)).bearer_auth(token)).await;
    assert_eq!((status, &me["user_id"], &me["auth_method"]), (200, &json!(ada.id), &json!("jwt")), "{me}");
    sso.scope.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_login_ends_only_in_its_browser_once_and_with_its_verifier() {
    let sso = Sso::start(CALLBACK).await;
    let (url, cookie) = sso.begin("http://localhost:9/").await.unwrap();
    let callback = sso.provider.sign_in(&url).await.unwrap();
    let (status, refused) = sso.end(&callback, "pandastack_login=0").await.unwrap_err();
    assert_eq!((status, &refused["error"]), (401, &json!("unauthorized")), "another browser: {refused}");
    assert_eq!(sso.end(&callback, &cookie).await.unwrap_err().0, 401, "and it is tried once");
    let (url, cookie) = sso.begin("http://localhost:9/").await.unwrap();
    let callback = sso.provider.sign_in(&url).await.unwrap();
    let next = sso.end(&callback, &cookie).await.unwrap();
    assert_eq!(sso.end(&callback, &cookie).await.unwrap_err().0, 401);
    let code = next.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
    let exchange = |verifier: &str| send(&sso.rig, "/v1/auth/oidc/token", json!({"code": code, "verifier": verifier}));
    assert_eq!(exchange("another verifier").await.0, 401);
    assert_eq!(exchange(VERIFIER).await.0, 401, "a code is tried once");
    let forged = LoginCallback { state: Some("x".into()), code: Some("y".into()), ..LoginCallback::default() };
    assert_eq!(sso.end(&forged, &cookie).await.unwrap_err().0, 401);
    sso.scope.close(Duration::from_secs(5)).await;
}

/// Otherwise a person would see JSON.
#[tokio::test]
async fn a_refusal_of_the_provider_is_told_to_the_page_that_began() {
    let sso = Sso::start(CALLBACK).await;
    sso.provider.set_denies(true);
    let (url, cookie) = sso.begin("http://localhost:9/signin").await.unwrap();
    let callback = sso.provider.sign_in(&url).await.unwrap();
    let next = sso.end(&callback, &cookie).await.unwrap();
    let reason = next.query_pairs().find(|(name, _)| name == "error").unwrap().1.into_owned();
    assert!(next.as_str().starts_with("http://localhost:9/signin?error=") && reason.contains("not you"), "{next}");
    // Somebody else's refusal is not told to this browser.
    let (url, _) = sso.begin("http://localhost:9/signin").await.unwrap();
    let callback = sso.provider.sign_in(&url).await.unwrap();
    assert_eq!(sso.end(&callback, &cookie).await.unwrap_err().0, 401);
    sso.scope.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_browser_is_sent_nowhere_else() {
    let sso = Sso::start(CALLBACK).await;
    let foreign =
        ["", "https://evil.example.com/", "http://127.0.0.1.example.com/", "http://u:p@localhost/", "file:///x"];
    // A signed link leads on to a program in a guest, which would get the code.
    let links = ["/v1/p/x/", "/v1", "/a/../v1/p/x", "/%2e%2e/v1/p/x"].map(|path| format!("{}{path}", sso.rig.url));
    let near = "http://localhost:9/v1/p/x".to_owned();
    for bad in foreign.map(str::to_owned).into_iter().chain(links).chain([near]) {
        let (status, refused) = sso.begin(&bad).await.unwrap_err();
        assert_eq!((status, &refused["code"]), (400, &json!("auth.bad_redirect")), "{bad:?}");
    }
    sso.begin(&format!("{}/invite/x", sso.rig.url)).await.unwrap();
    let url = format!("{}/v1/auth/oidc/start?redirect=http://localhost/&challenge=short", sso.rig.url);
    assert_eq!(answer(sso.browser.get(url)).await.1["code"], json!("auth.bad_challenge"));
    let plain = Rig::start().await;
    let url = format!("{}/v1/auth/oidc/start", plain.url);
    assert_eq!(answer(plain.http.get(url)).await.0, 404, "no provider is set up");
    sso.provider.set_down(true);
    sso.scope.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_verified_address_is_the_account_with_a_password_and_another_one_is_not() {
    let sso = Sso::start(CALLBACK).await;
    let root = operator(&sso.rig).await;
    let user = |subject: &str, verified: bool| ProviderUser {
        subject: subject.to_owned(),
        email: "root@example.com".to_owned(),
        email_verified: verified,
        name: "Root".to_owned(),
    };
    sso.provider.set_user(user("mallory", false));
    let mallory = known(&sso.rig, sso.log_in().await.1).await;
    assert!(mallory.id != root.id && mallory.email.is_empty(), "{mallory:?}");
    sso.provider.set_user(user("root", true));
    let same = known(&sso.rig, sso.log_in().await.1).await;
    assert_eq!((same.id, same.org), (root.id, root.org));
    assert_eq!(crate::people::log_in(&sso.rig, "root@example.com", PASSWORD).await.0, 200, "the password stays");
    sso.scope.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn an_account_that_an_invite_made_is_not_the_owner_of_its_address() {
    let sso = Sso::start(CALLBACK).await;
    let root = operator(&sso.rig).await;
    // Whoever invites sees the link, and could register the address of somebody else.
    let registered = invited(&sso.rig, &root, "bob@example.com", "member").await;
    sso.provider.set_user(ProviderUser {
        subject: "bob".to_owned(),
        email: "bob@example.com".to_owned(),
        email_verified: true,
        name: "Bob".to_owned(),
    });
    let bob = known(&sso.rig, sso.log_in().await.1).await;
    assert!(bob.id != registered.id && bob.email == registered.email, "{bob:?} {registered:?}");
    sso.scope.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn bad_tokens_of_the_provider_are_refused_and_keys_rotate() {
    let sso = Sso::start(CALLBACK).await;
    let me = |token: String| answer(sso.rig.http.get(format!("{}/v1/me", sso.rig.url)).bearer_auth(token));
    let good = sso.provider.issue(None);
    assert_eq!(me(good.clone()).await.0, 200);
    let mut cut = good.clone();
    cut.pop();
    for bad in [cut, format!("{good}x"), "a.b.c".to_owned(), "x".repeat(20_000)] {
        let (status, refused) = me(bad).await;
        assert_eq!((status, &refused["error"]), (401, &json!("unauthorized")), "{refused}");
    }
    let claims = json!({"iss": sso.provider.issuer(), "aud": "somebody-else", "sub": "x", "iat": 1, "exp": u32::MAX});
    assert_eq!(me(sso.provider.sign(&claims)).await.0, 401, "made for another client");
    sso.provider.rotate();
    // A key set is fetched at most once in a while, however many unknown keys are named.
    sso.clock.travel(Duration::from_secs(120));
    assert_eq!(me(sso.provider.issue(None)).await.0, 200, "a new key is fetched");
    sso.scope.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn the_first_requests_with_a_token_at_once_make_one_user_and_one_org() {
    let sso = Sso::start(CALLBACK).await;
    let me = async || {
        // Each token is another one, so that no request is answered from the cache.
        let token = sso.provider.issue(Some(&pandastack_kit::random_hex::<4>()));
        answer(sso.rig.http.get(format!("{}/v1/me", sso.rig.url)).bearer_auth(token)).await
    };
    let done = tokio::join!(me(), me(), me(), me(), me());
    for (status, one) in [&done.0, &done.1, &done.2, &done.3, &done.4] {
        assert_eq!((*status, &one["current_org_id"]), (200, &done.0.1["current_org_id"]), "{one}");
        assert_eq!(one["orgs"].as_array().unwrap().len(), 1);
    }
    sso.scope.close(Duration::from_secs(5)).await;
}
