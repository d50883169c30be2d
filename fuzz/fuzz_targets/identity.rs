//! Reads any bytes as what users and identity providers send: addresses, tokens, key sets, claims.
//! Run: `cargo xtask fuzz identity`.
#![no_main]

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use libfuzzer_sys::fuzz_target;
use pandastack_identity::{
    EmailAddress, InviteToken, PendingLogin, ResetToken, SecretHash, SessionToken, Slug,
    fetch::provider_url,
    jwt::{
        claims::{ExpectedClaims, UncheckedToken},
        keys::{KeySet, SignatureCheck},
    },
    limits::{IDENTITY_NAME_CHARS_MAX, JWT_SUBJECT_BYTES_MAX},
    oidc::metadata::ProviderMetadata,
    personal_org,
};

const ISSUER: &str = "https://id.example";
const NOW_S: u64 = 1_800_000_000;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        names(text);
        tokens(text);
    }
    let _ = ProviderMetadata::read(bytes, ISSUER);
    claims(bytes);
    // Any key set, and a signature that it did not make.
    if let Ok(keys) = KeySet::read(bytes) {
        for algorithm in ["eyJhbGciOiJFUzI1NiJ9", "eyJhbGciOiJSUzI1NiJ9"] {
            let token = format!("{algorithm}.e30.{}", URL_SAFE_NO_PAD.encode([7; 64]));
            let token = UncheckedToken::parse(&token).expect("a token");
            assert_ne!(keys.check(&token.signed()), SignatureCheck::Valid);
        }
    }
});

fn names(text: &str) {
    let email = EmailAddress::parse(text).ok();
    if let Some(email) = &email {
        assert_eq!(EmailAddress::parse(email.as_str()).as_ref(), Ok(email));
    }
    for slug in [Slug::from_name(text), personal_org(email.as_ref(), text).slug] {
        assert_eq!(Slug::parse(slug.as_str()).as_ref(), Ok(&slug));
    }
    if let Ok(url) = provider_url(text) {
        assert!(url.scheme() == "https" || matches!(url.host_str(), Some("localhost" | "[::1]")) || is_loopback(&url));
    }
}

fn is_loopback(url: &pandastack_identity::fetch::Url) -> bool {
    url.host_str().is_some_and(|host| host.starts_with("127."))
}

fn tokens(text: &str) {
    let _ = (SessionToken::parse(text), InviteToken::parse(text), ResetToken::parse(text));
    if let Ok(hash) = SecretHash::from_hex(text) {
        assert_eq!(hash.to_hex(), text);
    }
    let _ = PendingLogin::from_json(text);
    if let Ok(token) = UncheckedToken::parse(text) {
        let _ = token.claims(&expected());
    }
}

/// Claims as they are read after their signature was found valid.
fn claims(bytes: &[u8]) {
    let token = format!("eyJhbGciOiJFUzI1NiJ9.{}.AA", URL_SAFE_NO_PAD.encode(bytes));
    let Ok(token) = UncheckedToken::parse(&token) else { return };
    if let Ok(claims) = token.claims(&expected()) {
        assert!((1..=JWT_SUBJECT_BYTES_MAX).contains(&claims.subject.len()));
        assert!(claims.name.is_none_or(|name| name.chars().count() <= IDENTITY_NAME_CHARS_MAX));
        assert_eq!(claims.issuer.as_deref(), Some(ISSUER));
        assert!(claims.expires_at_s.saturating_add(60) > NOW_S && claims.issued_at_s <= NOW_S + 60);
    }
}

fn expected() -> ExpectedClaims<'static> {
    ExpectedClaims { now_s: NOW_S, issuer: Some(ISSUER), audience: None }
}
