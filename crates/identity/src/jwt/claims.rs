//! The text of a JWT: its three parts, and the claims in it. Checks times, issuer and audience;
//! signatures are checked before, in `keys`.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Number, Value};

use super::{
    JwtError,
    keys::{JwtAlgorithm, SignedMessage},
};
use crate::{
    email::EmailAddress,
    limits::{IDENTITY_NAME_CHARS_MAX, JWT_AUDIENCES_MAX, JWT_BYTES_MAX, JWT_LEEWAY, JWT_SUBJECT_BYTES_MAX},
};

/// What a valid token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtClaims {
    /// The user's id at the issuer.
    pub subject: String,
    pub issuer: Option<String>,
    pub audience: Vec<String>,
    /// The client that the token was issued to (`azp`).
    pub authorized_party: Option<String>,
    /// `None` also if the issuer gave a text that is no e-mail address.
    pub email: Option<EmailAddress>,
    pub email_verified: bool,
    /// Without control characters, and cut to a bound.
    pub name: Option<String>,
    pub nonce: Option<String>,
    pub issued_at_s: u64,
    pub expires_at_s: u64,
}

/// A token taken apart, with a signature that is not checked yet.
pub struct UncheckedToken<'a> {
    pub algorithm: JwtAlgorithm,
    pub kid: Option<String>,
    message: &'a str,
    payload: &'a str,
    signature: Vec<u8>,
}

/// What a token must say besides its times.
pub struct ExpectedClaims<'a> {
    pub now_s: u64,
    pub issuer: Option<&'a str>,
    pub audience: Option<&'a str>,
}

#[derive(Deserialize)]
struct RawHeader {
    alg: String,
    kid: Option<String>,
    /// Extensions that a reader must understand. We understand none.
    crit: Option<Value>,
}

#[derive(Deserialize)]
struct RawClaims {
    sub: Option<String>,
    iss: Option<String>,
    aud: Option<RawAudience>,
    azp: Option<String>,
    exp: Option<NumericDate>,
    iat: Option<NumericDate>,
    nbf: Option<NumericDate>,
    email: Option<String>,
    email_verified: Option<RawFlag>,
    name: Option<String>,
    nonce: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawAudience {
    One(String),
    Many(Vec<String>),
}

/// Some providers write booleans as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawFlag {
    Flag(bool),
    Text(String),
}

/// Seconds since the epoch. Fractions are allowed, and cut.
struct NumericDate(u64);

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(from)?;
        let fraction = || number.as_f64().filter(|seconds| (0.0..9e15).contains(seconds)).map(|seconds| seconds as u64);
        number.as_u64().or_else(fraction).map(Self).ok_or_else(|| D::Error::custom("not a time"))
    }
}

impl<'a> UncheckedToken<'a> {
    pub fn parse(token: &'a str) -> Result<Self, JwtError> {
        if token.len() > JWT_BYTES_MAX {
            return Err(JwtError::TooLong);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed("it has not three parts"))?;
        let (header, payload) = message.split_once('.').ok_or(JwtError::Malformed("it has not three parts"))?;
        if payload.contains('.') {
            return Err(JwtError::Malformed("it has not three parts"));
        }
        let header: RawHeader = json(header).ok_or(JwtError::Malformed("its header is not readable"))?;
        let algorithm = JwtAlgorithm::parse(&header.alg).ok_or(JwtError::AlgorithmNotAllowed)?;
        if header.crit.is_some() {
            return Err(JwtError::Malformed("it demands an extension"));
        }
        let signature = URL_SAFE_NO_PAD.decode(signature);
        let signature = signature.map_err(|_| JwtError::Malformed("its signature is not readable"))?;
        Ok(Self { algorithm, kid: header.kid, message, payload, signature })
    }

    pub fn signed(&self) -> SignedMessage<'_> {
        SignedMessage {
            algorithm: self.algorithm,
            kid: self.kid.as_deref(),
            message: self.message.as_bytes(),
            signature: &self.signature,
        }
    }

    /// Reads the claims. Call it after the signature was found valid.
    pub fn claims(&self, expected: &ExpectedClaims<'_>) -> Result<JwtClaims, JwtError> {
        let raw: RawClaims = json(self.payload).ok_or(JwtError::Malformed("its claims are not readable"))?;
        checked(raw, expected)
    }
}

fn json<T: for<'de> Deserialize<'de>>(part: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

fn checked(raw: RawClaims, expected: &ExpectedClaims<'_>) -> Result<JwtClaims, JwtError> {
    let leeway_s = JWT_LEEWAY.as_secs();
    let expires_at_s = raw.exp.ok_or(JwtError::MissingClaim("exp"))?.0;
    let issued_at_s = raw.iat.ok_or(JwtError::MissingClaim("iat"))?.0;
    let subject = raw.sub.filter(|subject| !subject.is_empty()).ok_or(JwtError::MissingClaim("sub"))?;
    if subject.len() > JWT_SUBJECT_BYTES_MAX || subject.contains(char::is_control) {
        return Err(JwtError::Malformed("its subject is not valid"));
    }
    if expected.now_s >= expires_at_s.saturating_add(leeway_s) {
        return Err(JwtError::Expired);
    }
    let soon_s = expected.now_s.saturating_add(leeway_s);
    if issued_at_s > soon_s || raw.nbf.is_some_and(|not_before| not_before.0 > soon_s) {
        return Err(JwtError::NotYetValid);
    }
    if expected.issuer.is_some_and(|issuer| raw.iss.as_deref() != Some(issuer)) {
        return Err(JwtError::WrongIssuer);
    }
    let audience = match raw.aud {
        None => Vec::new(),
        Some(RawAudience::One(one)) => vec![one],
        Some(RawAudience::Many(many)) => many,
    };
    if audience.len() > JWT_AUDIENCES_MAX {
        return Err(JwtError::Malformed("it has too many audiences"));
    }
    if expected.audience.is_some_and(|wanted| !audience.iter().any(|one| one == wanted)) {
        return Err(JwtError::WrongAudience);
    }
    let email_verified = match raw.email_verified {
        Some(RawFlag::Flag(flag)) => flag,
        Some(RawFlag::Text(text)) => text == "true",
        None => false,
    };
    Ok(JwtClaims {
        subject,
        issuer: raw.iss,
        audience,
        authorized_party: raw.azp,
        email: raw.email.and_then(|email| EmailAddress::parse(&email).ok()),
        email_verified,
        name: raw.name.as_deref().and_then(shown_name),
        nonce: raw.nonce,
        issued_at_s,
        expires_at_s,
    })
}

/// A name as it can be shown.
fn shown_name(name: &str) -> Option<String> {
    let clean: String = name.chars().filter(|letter| !letter.is_control()).take(IDENTITY_NAME_CHARS_MAX).collect();
    let clean = clean.trim();
    (!clean.is_empty()).then(|| clean.to_owned())
}
