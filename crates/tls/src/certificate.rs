//! A certificate chain with its key, checked and ready to be served.

use std::{io, path::PathBuf, sync::Arc, time::SystemTime};

use tokio_rustls::rustls::{
    self,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    sign::CertifiedKey,
};
use webpki::EndEntityCert;

use crate::{limits::CERTIFICATE_FILE_BYTES_MAX, validity::Validity};

/// Why a certificate cannot be served. Every text ends with the next step.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("read {}: {cause}; check the path and who may read the file", path.display())]
    Read { path: PathBuf, cause: io::Error },
    #[error("{} is larger than {CERTIFICATE_FILE_BYTES_MAX} bytes; give a PEM file", path.display())]
    TooLarge { path: PathBuf },
    #[error("{place} contains no PEM certificate; it must begin with -----BEGIN CERTIFICATE-----")]
    NoCertificate { place: String },
    #[error("{place} contains no usable private key; give a PEM key without a password (PKCS #8, PKCS #1 or SEC 1)")]
    NoKey { place: String },
    #[error("{place} is no valid PEM file: {cause}; make it again")]
    Pem { place: String, cause: pem::Error },
    #[error(
        "the key does not belong to the first certificate of {place}; the server's own certificate must come first, \
         and the key must be the one it was made for"
    )]
    OtherKey { place: String },
    #[error("{place} cannot be used: {cause}; make the certificate again with an ECDSA P-256 or RSA 2048 key")]
    Unusable { place: String, cause: rustls::Error },
    #[error("the certificate in {place} cannot be read; make it again")]
    Malformed { place: String },
    #[error("the certificate in {place} expired on {day}; replace it with a new one")]
    Expired { place: String, day: String },
}

/// A checked certificate chain with its key.
#[derive(Debug)]
pub struct ServedCertificate {
    pub(crate) key: Arc<CertifiedKey>,
    names: Vec<String>,
    validity: Validity,
}

impl ServedCertificate {
    /// Reads a chain and a key, both in PEM. `place` names the chain in errors, `key_place` the
    /// key.
    pub fn from_pem(chain: &[u8], key: &[u8], place: &str, key_place: &str) -> Result<Self, CertificateError> {
        let place = || place.to_owned();
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.map_err(|cause| CertificateError::Pem { place: place(), cause })?;
        let first = chain.first().ok_or_else(|| CertificateError::NoCertificate { place: place() })?;
        let validity = Validity::of(first).ok_or_else(|| CertificateError::Malformed { place: place() })?;
        let names = match EndEntityCert::try_from(first) {
            Ok(parsed) => parsed.valid_dns_names().map(str::to_ascii_lowercase).collect(),
            Err(_) => return Err(CertificateError::Malformed { place: place() }),
        };
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|cause| match cause {
            pem::Error::NoItemsFound => CertificateError::NoKey { place: key_place.to_owned() },
            cause => CertificateError::Pem { place: key_place.to_owned(), cause },
        })?;
        let key = CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|cause| match cause {
            rustls::Error::InconsistentKeys(_) => CertificateError::OtherKey { place: place() },
            cause => CertificateError::Unusable { place: place(), cause },
        })?;
        Ok(Self { key: Arc::new(key), names, validity })
    }

    /// The DNS names of the certificate, in lower case; some may be wildcards.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    pub fn validity(&self) -> Validity {
        self.validity
    }

    pub fn is_expired(&self, now: SystemTime) -> bool {
        self.validity.to < now
    }
}

/// Tells whether a name of a certificate covers a host name: it is the same, or a wildcard for its
/// first label.
pub(crate) fn covers(pattern: &str, host: &str) -> bool {
    match (pattern.strip_prefix("*."), host.split_once('.')) {
        (Some(parent), Some((label, rest))) => !label.is_empty() && rest.eq_ignore_ascii_case(parent),
        (Some(_), None) => false,
        (None, _) => pattern.eq_ignore_ascii_case(host),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    /// A self-signed certificate and its key.
    pub fn made(names: &[&str], last_year: i32) -> (String, String) {
        let mut params =
            CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        params.not_after = date_time_ymd(last_year, 1, 1);
        let key = KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    fn read(chain: &str, key: &str) -> Result<ServedCertificate, CertificateError> {
        ServedCertificate::from_pem(chain.as_bytes(), key.as_bytes(), "cert.pem", "key.pem")
    }

    #[test]
    fn names_and_end_are_known() {
        let (chain, key) = made(&["API.example.com", "*.box.example"], 2099);
        let served = read(&chain, &key).unwrap();
        assert_eq!(served.names(), ["api.example.com", "*.box.example"]);
        assert!(!served.is_expired(SystemTime::now()));
        let (chain, key) = made(&["a.example"], 2001);
        assert!(read(&chain, &key).unwrap().is_expired(SystemTime::now()));
    }

    #[test]
    fn every_unusable_pair_says_what_is_wrong() {
        let ((chain, key), (_, other)) = (made(&["a.example"], 2099), made(&["a.example"], 2099));
        let check = |chain: &str, key: &str, part: &str| {
            let text = read(chain, key).unwrap_err().to_string();
            assert!(text.contains(part), "{part}: {text}");
        };
        check(&chain, &other, "does not belong");
        check("", &key, "cert.pem contains no PEM certificate");
        check(&chain, "", "key.pem contains no usable private key");
        check(&key, &key, "no PEM certificate");
        check(&chain, &chain, "no usable private key");
        check(&chain.replace('\n', "\n!"), &key, "cert.pem");
        let hollow = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        check(hollow, &key, "cannot be read");
        let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n";
        check(&chain, locked, "without a password");
    }

    #[test]
    fn a_wildcard_covers_one_label() {
        for (pattern, host, expected) in [
            ("a.example", "A.example", true),
            ("a.example", "b.a.example", false),
            ("*.a.example", "3000-x.A.example", true),
            ("*.a.example", "a.example", false),
            ("*.a.example", "x.y.a.example", false),
            ("*.a.example", ".a.example", false),
        ] {
            assert_eq!(covers(pattern, host), expected, "{pattern} {host}");
        }
    }
}
