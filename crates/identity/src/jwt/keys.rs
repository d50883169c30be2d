//! The public keys of a provider (a JWKS document), and the check of a signature with one of them.
//! A key is used with one algorithm only, whatever a token says.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::Value;

use crate::limits::{KEY_SET_BYTES_MAX, KEY_SET_KEYS_MAX};

/// Bytes of a coordinate on the curve P-256.
const P256_BYTES: usize = 32;

/// Bytes of an RSA modulus.
const RSA_BYTES_MIN: usize = 256;
const RSA_BYTES_MAX: usize = 1024;

/// The algorithms that a token may be signed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JwtAlgorithm {
    Es256,
    Rs256,
}

impl JwtAlgorithm {
    /// Reads the `alg` of a token or a key. Everything else is refused, also `none` and HMAC.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "ES256" => Some(Self::Es256),
            "RS256" => Some(Self::Rs256),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
        }
    }
}

/// The usable keys of a provider.
#[derive(Debug)]
pub struct KeySet {
    keys: Vec<VerificationKey>,
}

#[derive(Debug)]
struct VerificationKey {
    kid: Option<String>,
    point: KeyPoint,
}

#[derive(Debug)]
enum KeyPoint {
    /// An uncompressed point: 4, x, y.
    P256(Vec<u8>),
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureCheck {
    Valid,
    /// The named key exists, and did not make this signature.
    Invalid,
    /// No key has this `kid`, or the key was chosen without a `kid` and did not make the signature.
    /// A newer set may have the right one.
    UnknownKey,
    /// The key is of another type than the token's algorithm.
    WrongKeyType,
    /// The token names no key, and the set has several.
    KeyNotNamed,
}

/// What a signature is checked against.
pub struct SignedMessage<'a> {
    pub algorithm: JwtAlgorithm,
    pub kid: Option<&'a str>,
    pub message: &'a [u8],
    pub signature: &'a [u8],
}

#[derive(Deserialize)]
struct RawSet {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct RawKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
}

impl KeySet {
    /// Reads a JWKS document. Leaves out the keys that are for something else.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > KEY_SET_BYTES_MAX {
            return Err(format!("the key set has more than {KEY_SET_BYTES_MAX} bytes"));
        }
        let raw: RawSet = serde_json::from_slice(bytes).map_err(|_| "it is not a JSON Web Key Set".to_owned())?;
        if raw.keys.len() > KEY_SET_KEYS_MAX {
            return Err(format!("the key set has more than {KEY_SET_KEYS_MAX} keys"));
        }
        let keys: Vec<_> = raw.keys.into_iter().filter_map(VerificationKey::read).collect();
        if keys.is_empty() {
            return Err("the key set has no key for ES256 or RS256".to_owned());
        }
        Ok(Self { keys })
    }

    /// Checks a signature with the key that the token names. In a set with one key, either side may
    /// omit the name.
    pub fn check(&self, signed: &SignedMessage<'_>) -> SignatureCheck {
        let is_named = |key: &&VerificationKey| signed.kid.is_some() && key.kid.as_deref() == signed.kid;
        let named: Vec<_> = self.keys.iter().filter(is_named).collect();
        let (candidates, wrong) = match self.keys.as_slice() {
            _ if !named.is_empty() => (named, SignatureCheck::Invalid),
            [only] if signed.kid.is_none() || only.kid.is_none() => (vec![only], SignatureCheck::UnknownKey),
            _ if signed.kid.is_none() => return SignatureCheck::KeyNotNamed,
            _ => return SignatureCheck::UnknownKey,
        };
        let fitting: Vec<_> = candidates.iter().filter(|key| key.algorithm() == signed.algorithm).collect();
        if fitting.is_empty() {
            return SignatureCheck::WrongKeyType;
        }
        if fitting.iter().any(|key| key.made(signed)) { SignatureCheck::Valid } else { wrong }
    }
}

impl VerificationKey {
    /// Returns nothing for a key that is broken, or for another purpose or algorithm.
    fn read(raw: Value) -> Option<Self> {
        let raw: RawKey = serde_json::from_value(raw).ok()?;
        let for_signatures = raw.purpose.as_deref().is_none_or(|purpose| purpose == "sig");
        let may_verify = raw.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !for_signatures || !may_verify {
            return None;
        }
        let decode = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_ref()?).ok();
        let point = match (raw.kty.as_str(), raw.crv.as_deref()) {
            ("EC", Some("P-256")) => {
                let (x, y) = (decode(&raw.x)?, decode(&raw.y)?);
                if x.len() != P256_BYTES || y.len() != P256_BYTES {
                    return None;
                }
                KeyPoint::P256([&[4][..], &x, &y].concat())
            }
            ("RSA", _) => {
                let (modulus, exponent) = (without_zeros(decode(&raw.n)?), without_zeros(decode(&raw.e)?));
                if !(RSA_BYTES_MIN..=RSA_BYTES_MAX).contains(&modulus.len()) {
                    return None;
                }
                KeyPoint::Rsa { modulus, exponent }
            }
            _ => return None,
        };
        let key = Self { kid: raw.kid, point };
        raw.alg.is_none_or(|alg| alg == key.algorithm().as_str()).then_some(key)
    }

    fn algorithm(&self) -> JwtAlgorithm {
        match &self.point {
            KeyPoint::P256(_) => JwtAlgorithm::Es256,
            KeyPoint::Rsa { .. } => JwtAlgorithm::Rs256,
        }
    }

    fn made(&self, signed: &SignedMessage<'_>) -> bool {
        match &self.point {
            KeyPoint::P256(point) => {
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
                key.verify(signed.message, signed.signature).is_ok()
            }
            KeyPoint::Rsa { modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, signed.message, signed.signature).is_ok()
            }
        }
    }
}

/// Some providers write a number with leading zeros, which the signature library refuses.
fn without_zeros(number: Vec<u8>) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number[zeros..].to_vec()
}
