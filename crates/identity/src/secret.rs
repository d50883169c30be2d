//! Random tokens for sessions, invites, and links that reset a password or log in. A token is
//! shown once, to its owner. Only its SHA-256 is stored: tokens are random, so that a slow hash
//! would add nothing.

use std::{fmt, marker::PhantomData};

use pandastack_kit::{Secret, random_hex};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Random bytes of a token, and the hex digits they are written as.
const TOKEN_BYTES: usize = 24;
const TOKEN_DIGITS: usize = 2 * TOKEN_BYTES;

/// Hex digits of a stored hash.
const HASH_DIGITS: usize = 64;

/// What a token is for.
pub trait TokenKind {
    /// Text before the hex digits.
    const PREFIX: &'static str;
    /// The token's name in an error.
    const NAME: &'static str;
}

/// Marks tokens of sessions.
pub struct SessionKind;

/// Marks tokens of invites.
pub struct InviteKind;

/// Marks tokens of links that reset a password.
pub struct ResetKind;

/// Marks tokens of links that log in once.
pub struct LinkKind;

/// `pss_` and 48 hex digits: a signed-in browser or client.
pub type SessionToken = SecretToken<SessionKind>;

/// 48 hex digits: an invitation to an organisation.
pub type InviteToken = SecretToken<InviteKind>;

/// `prs_` and 48 hex digits: a link that resets a password.
pub type ResetToken = SecretToken<ResetKind>;

/// `psl_` and 48 hex digits: a link that logs in once.
pub type LinkToken = SecretToken<LinkKind>;

impl TokenKind for SessionKind {
    const PREFIX: &'static str = "pss_";
    const NAME: &'static str = "session token";
}

impl TokenKind for InviteKind {
    const PREFIX: &'static str = "";
    const NAME: &'static str = "invite token";
}

impl TokenKind for ResetKind {
    const PREFIX: &'static str = "prs_";
    const NAME: &'static str = "password reset token";
}

impl TokenKind for LinkKind {
    const PREFIX: &'static str = "psl_";
    const NAME: &'static str = "sign-in link";
}

/// A token in plain text.
pub struct SecretToken<K> {
    text: Secret<String>,
    kind: PhantomData<K>,
}

/// A text that is no token of the wanted kind. Does not repeat the text, which may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a valid {name}")]
pub struct BadToken {
    name: &'static str,
}

impl<K: TokenKind> SecretToken<K> {
    /// Makes a token that nobody can guess.
    pub fn generate() -> Self {
        Self::of(format!("{}{}", K::PREFIX, random_hex::<TOKEN_BYTES>()))
    }

    /// Reads a token that a client sent.
    pub fn parse(text: &str) -> Result<Self, BadToken> {
        let digits = text.strip_prefix(K::PREFIX).filter(|digits| is_lower_hex(digits, TOKEN_DIGITS));
        digits.map(|_| Self::of(text.to_owned())).ok_or(BadToken { name: K::NAME })
    }

    /// Returns the plain text, to be handed to its owner.
    pub fn reveal(&self) -> &str {
        self.text.reveal()
    }

    /// Returns what is stored.
    pub fn hash(&self) -> SecretHash {
        SecretHash::of(self.reveal())
    }

    fn of(text: String) -> Self {
        Self { text: Secret::new(text), kind: PhantomData }
    }
}

impl<K: TokenKind> fmt::Debug for SecretToken<K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}(hidden)", K::NAME)
    }
}

/// The SHA-256 of a secret. Comparison takes the same time wherever two hashes differ.
#[derive(Clone, Copy)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// Hashes a secret.
    pub fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns 64 lower-case hex digits, the form of control's stored API keys.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads the hex form.
    pub fn from_hex(text: &str) -> Result<Self, BadToken> {
        let bad = BadToken { name: "hash of a secret" };
        if !is_lower_hex(text, HASH_DIGITS) {
            return Err(bad);
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| bad)?;
        }
        Ok(Self(bytes))
    }
}

impl PartialEq for SecretHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretHash {}

impl fmt::Debug for SecretHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SecretHash(hidden)")
    }
}

/// Compares two secrets in a time that depends on their lengths only.
pub fn same_secret(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

fn is_lower_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tokens_have_their_documented_form() {
        let (session, invite, reset) = (SessionToken::generate(), InviteToken::generate(), ResetToken::generate());
        assert!(session.reveal().starts_with("pss_") && session.reveal().len() == 4 + 48);
        assert!(is_lower_hex(invite.reveal(), 48));
        assert!(reset.reveal().starts_with("prs_") && reset.reveal().len() == 4 + 48);
        assert_eq!(SessionToken::parse(session.reveal()).unwrap().hash(), session.hash());
        assert_eq!(InviteToken::parse(invite.reveal()).unwrap().hash(), invite.hash());
        assert_eq!(ResetToken::parse(reset.reveal()).unwrap().hash(), reset.hash());
        assert_ne!(session.hash(), SessionToken::generate().hash());
    }

    #[test]
    fn a_token_of_another_kind_is_refused() {
        let digits = "0123456789abcdef".repeat(3);
        let session = format!("pss_{digits}");
        assert!(SessionToken::parse(&session).is_ok() && ResetToken::parse(&session).is_err());
        assert!(InviteToken::parse(&session).is_err() && InviteToken::parse(&digits).is_ok());
        assert!(LinkToken::parse(&session).is_err() && LinkToken::parse(LinkToken::generate().reveal()).is_ok());
        let spoilt = ["", "pss_", &digits, &session.to_uppercase(), &format!("{session}0"), &session[..51], "pds_x"];
        for text in spoilt.iter().chain(&[&*format!(" {session}"), &format!("pss_{}é{}", &digits[..23], &digits[..23])])
        {
            assert!(SessionToken::parse(text).is_err(), "{text}");
        }
        assert_eq!(SessionToken::parse("x").unwrap_err().to_string(), "this is not a valid session token");
    }

    #[test]
    fn debug_output_shows_nothing_of_a_secret() {
        let token = SessionToken::generate();
        let shown = format!("{token:?} {:?} {:?}", token.hash(), SessionToken::parse("pss_1"));
        assert_eq!(shown, "session token(hidden) SecretHash(hidden) Err(BadToken { name: \"session token\" })");
    }

    #[test]
    fn a_stored_hash_is_sha256() {
        let hash = SecretHash::of("abc");
        assert_eq!(hash.to_hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(SecretHash::from_hex(&hash.to_hex()), Ok(hash));
        assert_eq!(SecretHash::from_bytes(*hash.as_bytes()), hash);
        assert!(SecretHash::from_hex(&hash.to_hex().to_uppercase()).is_err());
    }

    #[test]
    fn secrets_are_compared_whole() {
        assert!(same_secret("abc", "abc") && same_secret("", ""));
        assert!(!same_secret("abc", "abd") && !same_secret("abc", "ab") && !same_secret("", "a"));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text in "(pss_|prs_)?[0-9a-fA-Fé\\PC]{0,60}") {
            let session = SessionToken::parse(&text).map(|token| token.reveal().to_owned());
            let reset = ResetToken::parse(&text).map(|token| token.reveal().to_owned());
            let invite = InviteToken::parse(&text).map(|token| token.reveal().to_owned());
            for accepted in [session, reset, invite].into_iter().flatten() {
                prop_assert_eq!(&accepted, &text);
            }
            let _ = SecretHash::from_hex(&text);
        }
    }
}
