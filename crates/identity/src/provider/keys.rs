//! Keys of the test provider: a new ES256 key in each generation, and one of two stored RS256 keys.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents,
    },
};
use serde_json::{Value, json};

use crate::jwt::keys::JwtAlgorithm;

/// RSA keys take seconds to make, so two are stored. They protect nothing.
const RSA_KEYS: [&[u8]; 2] = [include_bytes!("../../test-keys/rsa-1.der"), include_bytes!("../../test-keys/rsa-2.der")];

/// The keys between two rotations.
pub(super) struct SigningKeys {
    generation: usize,
    ec: EcdsaKeyPair,
    rsa: RsaKeyPair,
}

impl SigningKeys {
    pub fn new(generation: usize) -> Self {
        let rng = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &rng).expect("the kernel gives random bytes");
        let ec = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &rng).expect("the key was just made");
        let rsa = RsaKeyPair::from_der(RSA_KEYS[generation % RSA_KEYS.len()]).expect("a stored key is valid");
        Self { generation, ec, rsa }
    }

    pub fn next(&self) -> Self {
        Self::new(self.generation + 1)
    }

    pub fn kid(&self, algorithm: JwtAlgorithm) -> String {
        format!("{}-{}", algorithm.as_str().to_lowercase(), self.generation)
    }

    /// The public keys, as a JWKS document.
    pub fn public(&self) -> Value {
        let rsa: RsaPublicKeyComponents<Vec<u8>> = self.rsa.public().into();
        let point = self.ec.public_key().as_ref();
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({ "keys": [
            { "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.kid(JwtAlgorithm::Es256),
              "x": text(&point[1..33]), "y": text(&point[33..65]) },
            { "kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.kid(JwtAlgorithm::Rs256),
              "n": text(&rsa.n), "e": text(&rsa.e) },
        ] })
    }

    pub fn sign(&self, algorithm: JwtAlgorithm, message: &[u8]) -> Vec<u8> {
        let rng = SystemRandom::new();
        match algorithm {
            JwtAlgorithm::Es256 => self.ec.sign(&rng, message).expect("the key can sign").as_ref().to_vec(),
            JwtAlgorithm::Rs256 => {
                let mut signature = vec![0; self.rsa.public().modulus_len()];
                self.rsa.sign(&RSA_PKCS1_SHA256, &rng, message, &mut signature).expect("the key can sign");
                signature
            }
        }
    }

    /// Signs with HMAC and a public key as its secret: an attack on readers that trust `alg`.
    pub fn sign_with_public_key(&self, message: &[u8]) -> Vec<u8> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.ec.public_key().as_ref());
        hmac::sign(&key, message).as_ref().to_vec()
    }
}
