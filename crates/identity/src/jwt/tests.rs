//! Tokens of the test provider, over HTTP on loopback, and key sets by hand.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use pandastack_dial::{
    AddressPolicy, Dialer, TrustRoots,
    http::{HttpClient, HttpLimits},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    keys::{JwtAlgorithm, SignedMessage},
    *,
};
use crate::{
    fetch::FetchError,
    limits::{JWT_LEEWAY, KEY_SET_KEYS_MAX, PROVIDER_DOCUMENT_FRESH, PROVIDER_FETCH_PAUSE},
    provider::{OidcProvider, ProviderSetup, ProviderUser, TokenDefect},
    testing::TestClock,
};

struct Setup {
    provider: OidcProvider,
    verifier: JwtVerifier,
    clock: Arc<TestClock>,
}

impl Setup {
    async fn new() -> Self {
        let (clock, scope) = (Arc::new(TestClock::new()), Scope::new());
        let provider = OidcProvider::start(ProviderSetup::new(clock.clone(), scope.clone())).await.unwrap();
        let dialer = Dialer::new(AddressPolicy::Private, TrustRoots::Host, scope.clone());
        let http = Arc::new(HttpClient::new(dialer, scope.clone(), HttpLimits::default()));
        let settings = JwtSettings {
            jwks_url: provider.jwks_url(),
            issuer: Some(provider.issuer()),
            audience: Some("pandastack".to_owned()),
        };
        let verifier = JwtVerifier::new(settings, http, clock.clone(), scope).unwrap();
        Self { provider, verifier, clock }
    }

    async fn verify(&self, token: &str) -> Result<JwtClaims, JwtError> {
        self.verifier.verify(token).await
    }

    /// Verifies claims that are valid but for a change.
    async fn verify_changed(&self, change: impl FnOnce(&mut Value)) -> Result<JwtClaims, JwtError> {
        let now_s = self.clock.seconds();
        let mut claims = json!({
            "iss": self.provider.issuer(), "aud": "pandastack", "sub": "u", "iat": now_s, "exp": now_s + 300,
        });
        change(&mut claims);
        self.verify(&self.provider.sign(&claims)).await
    }
}

#[tokio::test]
async fn tokens_of_both_algorithms_are_accepted() {
    let setup = Setup::new().await;
    for algorithm in [JwtAlgorithm::Es256, JwtAlgorithm::Rs256] {
        setup.provider.set_algorithm(algorithm);
        let claims = setup.verify(&setup.provider.issue(None)).await.unwrap();
        assert_eq!(claims.subject, "user-1");
        assert_eq!(claims.email.unwrap().as_str(), "ada@example.org");
        assert_eq!((claims.email_verified, claims.name.as_deref()), (true, Some("Ada Lovelace")));
        assert_eq!((claims.issued_at_s, claims.expires_at_s), (setup.clock.seconds(), setup.clock.seconds() + 300));
    }
    assert_eq!(setup.provider.requests("/keys"), 1);
}

#[tokio::test]
async fn defects_of_the_signature_are_refused() {
    let setup = Setup::new().await;
    for algorithm in [JwtAlgorithm::Es256, JwtAlgorithm::Rs256] {
        setup.provider.set_algorithm(algorithm);
        for (defect, expected) in [
            (TokenDefect::WrongKey, JwtError::BadSignature),
            (TokenDefect::UnknownKid, JwtError::UnknownKey),
            (TokenDefect::WrongKeyType, JwtError::WrongKeyType),
            (TokenDefect::AlgorithmNone, JwtError::AlgorithmNotAllowed),
            (TokenDefect::HmacWithPublicKey, JwtError::AlgorithmNotAllowed),
        ] {
            setup.provider.set_defect(Some(defect));
            assert_eq!(setup.verify(&setup.provider.issue(None)).await, Err(expected), "{defect:?} {algorithm:?}");
        }
        setup.provider.set_defect(None);
        assert!(setup.verify(&setup.provider.issue(None)).await.is_ok());
    }
}

#[tokio::test]
async fn every_changed_byte_of_a_token_is_noticed() {
    let setup = Setup::new().await;
    let token = setup.provider.issue(None);
    assert!(setup.verify(&token).await.is_ok());
    for at in 0..token.len() {
        let mut changed = token.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert!(setup.verify(&changed).await.is_err(), "byte {at}");
    }
}

#[tokio::test]
async fn times_have_a_minute_of_leeway() {
    let setup = Setup::new().await;
    let (now_s, leeway_s) = (setup.clock.seconds(), JWT_LEEWAY.as_secs());
    for (name, last_good, first_bad, error) in [
        ("exp", now_s - leeway_s + 1, now_s - leeway_s, JwtError::Expired),
        ("iat", now_s + leeway_s, now_s + leeway_s + 1, JwtError::NotYetValid),
        ("nbf", now_s + leeway_s, now_s + leeway_s + 1, JwtError::NotYetValid),
    ] {
        assert!(setup.verify_changed(|claims| claims[name] = json!(last_good)).await.is_ok(), "{name}");
        assert_eq!(setup.verify_changed(|claims| claims[name] = json!(first_bad)).await, Err(error), "{name}");
    }
    assert!(setup.verify_changed(|claims| claims["exp"] = json!(now_s as f64 + 0.5)).await.is_ok());
    assert!(setup.verify_changed(|claims| claims["exp"] = json!(u64::MAX)).await.is_ok());
    for odd in [json!("soon"), json!(-1), json!(1e300), json!([now_s])] {
        let refused = setup.verify_changed(|claims| claims["exp"] = odd.clone()).await;
        assert_eq!(refused, Err(JwtError::Malformed("its claims are not readable")), "{odd}");
    }
}

#[tokio::test]
async fn claims_are_required_and_checked() {
    let setup = Setup::new().await;
    for name in ["exp", "iat", "sub"] {
        for missing in [Value::Null, json!("")].iter().take(if name == "sub" { 2 } else { 1 }) {
            let refused = setup.verify_changed(|claims| claims[name] = missing.clone()).await;
            assert_eq!(refused, Err(JwtError::MissingClaim(name)));
        }
    }
    for (name, value, error) in [
        ("iss", json!("https://id.example"), JwtError::WrongIssuer),
        ("iss", Value::Null, JwtError::WrongIssuer),
        ("aud", json!("other"), JwtError::WrongAudience),
        ("aud", json!([]), JwtError::WrongAudience),
        ("aud", Value::Null, JwtError::WrongAudience),
        ("aud", json!(vec!["pandastack"; 33]), JwtError::Malformed("it has too many audiences")),
        ("sub", json!("x".repeat(256)), JwtError::Malformed("its subject is not valid")),
        ("sub", json!("a\nb"), JwtError::Malformed("its subject is not valid")),
    ] {
        assert_eq!(setup.verify_changed(|claims| claims[name] = value.clone()).await, Err(error), "{name} {value}");
    }
    let claims = setup.verify_changed(|claims| claims["aud"] = json!(["other", "pandastack"])).await.unwrap();
    assert_eq!(claims.audience, ["other", "pandastack"]);
    assert_eq!((claims.email, claims.email_verified, claims.name), (None, false, None));
}

#[tokio::test]
async fn odd_values_of_providers_are_understood() {
    let setup = Setup::new().await;
    let claims = setup.verify_changed(|claims| {
        claims["email"] = json!("not an address");
        claims["email_verified"] = json!("true");
        claims["name"] = json!(format!(" Ada\u{1b}[31m{} ", "x".repeat(1000)));
    });
    let claims = claims.await.unwrap();
    assert_eq!((claims.email, claims.email_verified), (None, true));
    let name = claims.name.unwrap();
    assert!(name.starts_with("Ada[31mx") && name.chars().count() <= 256, "{name}");
    let refused = setup.verify_changed(|claims| claims["email_verified"] = json!("yes")).await.unwrap();
    assert!(!refused.email_verified);
}

#[tokio::test]
async fn issuer_and_audience_are_optional_settings() {
    let setup = Setup::new().await;
    let scope = Scope::new();
    let dialer = Dialer::new(AddressPolicy::Private, TrustRoots::Host, scope.clone());
    let http = Arc::new(HttpClient::new(dialer, scope.clone(), HttpLimits::default()));
    let settings = JwtSettings { jwks_url: setup.provider.jwks_url(), issuer: None, audience: None };
    let lenient = JwtVerifier::new(settings, http, setup.clock.clone(), scope).unwrap();
    let (now_s, user) = (setup.clock.seconds(), ProviderUser::default());
    let token = setup.provider.sign(&json!({ "sub": user.subject, "iat": now_s, "exp": now_s + 1 }));
    assert!(lenient.verify(&token).await.is_ok());
    assert_eq!(setup.verify(&token).await, Err(JwtError::WrongIssuer));
}

#[tokio::test]
async fn a_rotated_key_is_found_and_the_old_one_ends() {
    let setup = Setup::new().await;
    let old = setup.provider.issue(None);
    assert!(setup.verify(&old).await.is_ok());
    setup.provider.rotate();
    let new = setup.provider.issue(None);
    assert_eq!(setup.verify(&new).await, Err(JwtError::UnknownKey), "the set was just fetched");
    setup.clock.advance(PROVIDER_FETCH_PAUSE);
    assert!(setup.verify(&new).await.is_ok());
    assert_eq!(setup.verify(&old).await, Err(JwtError::UnknownKey));
    assert_eq!(setup.provider.requests("/keys"), 2);
}

#[tokio::test]
async fn a_removed_key_ends_within_the_hour() {
    let setup = Setup::new().await;
    let at = |setup: &Setup| {
        json!({ "iss": setup.provider.issuer(), "aud": "pandastack", "sub": "u",
        "iat": setup.clock.seconds(), "exp": setup.clock.seconds() + 86_400 })
    };
    let old = setup.provider.sign(&at(&setup));
    assert!(setup.verify(&old).await.is_ok());
    setup.provider.rotate();
    setup.clock.advance(PROVIDER_DOCUMENT_FRESH - Duration::from_secs(1));
    assert!(setup.verify(&old).await.is_ok());
    setup.clock.advance(Duration::from_secs(1));
    assert_eq!(setup.verify(&old).await, Err(JwtError::UnknownKey), "also for the first token after the hour");
}

#[tokio::test]
async fn unknown_keys_do_not_hammer_the_provider() {
    let setup = Setup::new().await;
    assert!(setup.verify(&setup.provider.issue(None)).await.is_ok());
    setup.provider.set_defect(Some(TokenDefect::UnknownKid));
    let unknown = setup.provider.issue(None);
    for _ in 0..10 {
        assert_eq!(setup.verify(&unknown).await, Err(JwtError::UnknownKey));
    }
    assert_eq!(setup.provider.requests("/keys"), 1);
    setup.clock.advance(PROVIDER_FETCH_PAUSE);
    for _ in 0..10 {
        assert_eq!(setup.verify(&unknown).await, Err(JwtError::UnknownKey));
    }
    assert_eq!(setup.provider.requests("/keys"), 2);
}

#[tokio::test]
async fn tokens_are_verified_while_the_provider_is_down() {
    let setup = Setup::new().await;
    assert!(setup.verify(&setup.provider.issue(None)).await.is_ok());
    setup.provider.set_down(true);
    setup.clock.advance(2 * PROVIDER_DOCUMENT_FRESH);
    assert!(setup.verify(&setup.provider.issue(None)).await.is_ok());
    setup.clock.advance(Duration::from_secs(24 * 3600));
    let refused = setup.verify(&setup.provider.issue(None)).await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused}");
    setup.provider.set_down(false);
    setup.clock.advance(PROVIDER_FETCH_PAUSE);
    assert!(setup.verify(&setup.provider.issue(None)).await.is_ok());
}

#[tokio::test]
async fn a_text_that_is_no_token_reaches_no_key() {
    let setup = Setup::new().await;
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let critical = format!("{}.{}.AA", part(json!({ "alg": "ES256", "crit": ["b64"], "b64": false })), part(json!({})));
    let twice = format!("{}.e30.AA", URL_SAFE_NO_PAD.encode(r#"{"alg":"ES256","alg":"none"}"#));
    for text in ["", ".", "..", "...", "a.b", "a.b.c", "a.b.c.d", "e30.e30.e30", "é.é.é", &critical, &twice] {
        assert!(matches!(setup.verify(text).await, Err(JwtError::Malformed(_))), "{text}");
    }
    let token = setup.provider.issue(None);
    assert!(setup.verify(&format!("{token}=")).await.is_err() && setup.verify(&format!(" {token}")).await.is_err());
    assert_eq!(setup.verify(&"x".repeat(16 * 1024 + 1)).await, Err(JwtError::TooLong));
    assert_eq!(setup.provider.requests("/keys"), 0, "no such text makes us ask the provider");
}

/// A key set that changes with each fetch.
struct ScriptedKeys {
    sets: Vec<String>,
    fetches: AtomicUsize,
}

#[async_trait]
impl FetchDocument for ScriptedKeys {
    async fn fetch(&self, _: &Url, _: usize) -> Result<Bytes, FetchError> {
        let at = self.fetches.fetch_add(1, Ordering::SeqCst).min(self.sets.len() - 1);
        Ok(self.sets[at].clone().into())
    }
}

/// The keys of the provider, each changed.
async fn published(setup: &Setup, change: impl Fn(&mut Value)) -> Value {
    let scope = Scope::new();
    let dialer = Dialer::new(AddressPolicy::Private, TrustRoots::Host, scope.clone());
    let http = HttpClient::new(dialer, scope, HttpLimits::default());
    let url = Url::parse(&setup.provider.jwks_url()).unwrap();
    let mut set: Value = serde_json::from_slice(&http.fetch(&url, 100_000).await.unwrap()).unwrap();
    set["keys"].as_array_mut().unwrap().iter_mut().for_each(change);
    set
}

fn with_sets(setup: &Setup, sets: Vec<Value>) -> JwtVerifier {
    let sets = sets.iter().map(Value::to_string).collect();
    let keys = Arc::new(ScriptedKeys { sets, fetches: AtomicUsize::new(0) });
    let settings = JwtSettings { jwks_url: "https://id.example/keys".to_owned(), issuer: None, audience: None };
    JwtVerifier::new(settings, keys, setup.clock.clone(), Scope::new()).unwrap()
}

#[tokio::test]
async fn only_a_set_with_one_key_may_omit_its_name() {
    let setup = Setup::new().await;
    let nameless = published(&setup, |key| key["kid"] = Value::Null).await;
    let token = setup.provider.issue(None);
    let one = json!({ "keys": [nameless["keys"][0]] });
    assert!(with_sets(&setup, vec![one.clone()]).verify(&token).await.is_ok());
    assert_eq!(with_sets(&setup, vec![nameless]).verify(&token).await, Err(JwtError::UnknownKey));
    // Without a name, a changed key shows only in the signature.
    setup.provider.rotate();
    let verifier = with_sets(&setup, vec![one, json!({ "keys": [published(&setup, |_| {}).await["keys"][0]] })]);
    assert!(verifier.verify(&token).await.is_ok());
    let token = setup.provider.issue(None);
    assert_eq!(verifier.verify(&token).await, Err(JwtError::UnknownKey));
    setup.clock.advance(PROVIDER_FETCH_PAUSE);
    assert!(verifier.verify(&token).await.is_ok());
}

#[tokio::test]
async fn a_token_may_omit_the_name_of_the_only_key() {
    let setup = Setup::new().await;
    let set = published(&setup, |_| {}).await;
    setup.provider.set_defect(Some(TokenDefect::NoKid));
    let nameless = setup.provider.issue(None);
    let several = with_sets(&setup, vec![set.clone()]);
    assert_eq!(several.verify(&nameless).await, Err(JwtError::KeyNotNamed));
    let one = with_sets(&setup, vec![json!({ "keys": [set["keys"][0]] })]);
    assert!(one.verify(&nameless).await.is_ok());
    setup.provider.rotate();
    assert_eq!(one.verify(&setup.provider.issue(None)).await, Err(JwtError::UnknownKey), "it is of another key");
    let only_rsa = with_sets(&setup, vec![json!({ "keys": [set["keys"][1]] })]);
    assert_eq!(only_rsa.verify(&nameless).await, Err(JwtError::WrongKeyType));
}

#[tokio::test]
async fn keys_for_something_else_are_left_out() {
    let setup = Setup::new().await;
    for (name, value) in [
        ("use", json!("enc")),
        ("alg", json!("RS512")),
        ("key_ops", json!(["sign"])),
        ("kty", json!("oct")),
        ("x", json!("AA")),
        ("kid", json!(7)),
    ] {
        let mut set = published(&setup, |_| {}).await;
        set["keys"][0][name] = value.clone();
        let verifier = with_sets(&setup, vec![set]);
        assert_eq!(verifier.verify(&setup.provider.issue(None)).await, Err(JwtError::UnknownKey), "{name} {value}");
    }
}

#[tokio::test]
async fn a_key_set_has_bounds() {
    let setup = Setup::new().await;
    let key = published(&setup, |_| {}).await["keys"][0].clone();
    let full = json!({ "keys": vec![key.clone(); KEY_SET_KEYS_MAX] }).to_string();
    assert!(KeySet::read(full.as_bytes()).is_ok());
    let over = json!({ "keys": vec![key.clone(); KEY_SET_KEYS_MAX + 1] }).to_string();
    assert!(KeySet::read(over.as_bytes()).unwrap_err().contains("64 keys"));
    let long = json!({ "keys": [key], "x": "x".repeat(KEY_SET_BYTES_MAX) }).to_string();
    assert!(KeySet::read(long.as_bytes()).unwrap_err().contains("bytes"));
    for bad in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","k":"AA"}]}"#] {
        assert!(KeySet::read(bad.as_bytes()).is_err(), "{bad}");
    }
    let small = json!({ "keys": [{ "kty": "RSA", "n": URL_SAFE_NO_PAD.encode([255; 255]), "e": "AQAB" }] }).to_string();
    assert!(KeySet::read(small.as_bytes()).is_err(), "RSA keys below 2048 bits are too weak");
}

proptest! {
    #[test]
    fn any_text_is_parsed_without_a_panic(text in "[\\PC.]{0,80}") {
        let _ = UncheckedToken::parse(&text);
    }

    /// A point that is not on the curve, or a number that is no modulus, makes no signature valid.
    #[test]
    fn random_keys_accept_nothing(
        x in prop::array::uniform32(any::<u8>()),
        y in prop::array::uniform32(any::<u8>()),
        n in prop::collection::vec(any::<u8>(), 200..300),
        signature in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let set = json!({ "keys": [
            { "kty": "EC", "crv": "P-256", "kid": "e", "x": text(&x), "y": text(&y) },
            { "kty": "RSA", "kid": "r", "n": text(&n), "e": "AQAB" },
        ] });
        let set = KeySet::read(set.to_string().as_bytes()).unwrap();
        for (algorithm, kid) in [(JwtAlgorithm::Es256, "e"), (JwtAlgorithm::Rs256, "r"), (JwtAlgorithm::Rs256, "e")] {
            let signed = SignedMessage { algorithm, kid: Some(kid), message: b"x", signature: &signature };
            prop_assert_ne!(set.check(&signed), SignatureCheck::Valid);
        }
    }
}
