//! Proof that the program that ends a login at an identity provider is the one that began it (PKCE,
//! S256): a page that sees the code cannot use it.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use pandastack_kit::{Secret, random_hex};
use sha2::{Digest, Sha256};

/// Random bytes of a verifier.
const VERIFIER_BYTES: usize = 32;

/// A secret text, of which the server first gets only the hash.
pub struct LoginVerifier(Secret<String>);

impl LoginVerifier {
    /// Makes a text that nobody can guess.
    pub fn generate() -> Self {
        Self(Secret::new(random_hex::<VERIFIER_BYTES>()))
    }

    /// Returns the hash, to be sent when the login begins.
    pub fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.reveal().as_bytes()))
    }

    /// Returns the text, to be sent with the code.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_the_standards() {
        // RFC 7636, appendix B.
        let verifier = LoginVerifier(Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned()));
        assert_eq!(verifier.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn a_verifier_is_used_once_and_long_enough() {
        let (one, two) = (LoginVerifier::generate(), LoginVerifier::generate());
        assert_ne!(one.reveal(), two.reveal());
        assert!((43..=128).contains(&one.reveal().len()));
    }
}
