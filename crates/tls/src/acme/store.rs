//! The account's key and the certificates, in files that only their owner may read. A directory of
//! another ACME server has its own folder: certificates of a test server are not served for a real
//! one.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use instant_acme::AccountCredentials;
use pandastack_kit::replace_private;

use super::{AcmeDomain, AcmeError};
use crate::certificate::ServedCertificate;

const ACCOUNT: &str = "account.json";

/// The files for one ACME server.
pub struct AcmeStore(PathBuf);

impl AcmeStore {
    /// Makes the folder for an ACME server.
    pub fn open(folder: &Path, directory: &str) -> Result<Self, AcmeError> {
        let path = folder.join(folder_name(directory));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|cause| AcmeError::Store { what: "certificates", path: path.clone(), cause })?;
        Ok(Self(path))
    }

    /// The stored account. A file that cannot be read as one counts as none.
    pub fn account(&self) -> Result<Option<AccountCredentials>, AcmeError> {
        let path = self.0.join(ACCOUNT);
        match fs::read(&path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(AcmeError::Store { what: "the ACME account", path, cause }),
        }
    }

    pub fn keep_account(&self, credentials: &AccountCredentials) -> Result<(), AcmeError> {
        let path = self.0.join(ACCOUNT);
        let kept = serde_json::to_vec(credentials).map_err(io::Error::other);
        let kept = kept.and_then(|bytes| replace_private(&path, &bytes));
        kept.map_err(|cause| AcmeError::Store { what: "the ACME account", path, cause })
    }

    /// Forgets an account that the server does not know any more.
    pub fn forget_account(&self) {
        if let Err(error) = fs::remove_file(self.0.join(ACCOUNT)) {
            tracing::debug!(%error, "could not remove the ACME account");
        }
    }

    /// The stored certificate of a domain.
    pub fn certificate(&self, domain: &AcmeDomain) -> Result<Option<ServedCertificate>, AcmeError> {
        let path = self.0.join(domain.file_name());
        let pem = match fs::read(&path) {
            Ok(pem) => pem,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(AcmeError::Store { what: "the certificate", path, cause }),
        };
        let place = path.display().to_string();
        Ok(Some(ServedCertificate::from_pem(&pem, &pem, &place, &place)?))
    }

    /// Stores a chain with its key in one file, so that they always match. Reads it back as it will
    /// be read at the next start.
    pub fn keep_certificate(
        &self,
        domain: &AcmeDomain,
        key: &str,
        chain: &str,
    ) -> Result<ServedCertificate, AcmeError> {
        let (path, pem) = (self.0.join(domain.file_name()), format!("{key}\n{chain}"));
        let place = path.display().to_string();
        let served = ServedCertificate::from_pem(pem.as_bytes(), pem.as_bytes(), &place, &place)?;
        let kept = replace_private(&path, pem.as_bytes());
        kept.map_err(|cause| AcmeError::Store { what: "the certificate", path, cause })?;
        Ok(served)
    }
}

/// The directory's address with only characters that are safe in a file name. Different addresses
/// differ by the digest at the end.
fn folder_name(directory: &str) -> String {
    let host = directory.split('/').nth(2).unwrap_or_default();
    let host: String = host.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    let digest = ring_digest(directory);
    format!("{}-{digest}", host.chars().take(64).collect::<String>())
}

fn ring_digest(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::certificate::tests::made;

    #[test]
    fn certificates_are_private_and_belong_to_one_server() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["https://a.example/one", "https://a.example/two"]
            .map(|directory| AcmeStore::open(folder.path(), directory).unwrap());
        let domain: AcmeDomain = "*.box.example".parse().unwrap();
        let (chain, key) = made(&["*.box.example"], 2099);
        one.keep_certificate(&domain, &key, &chain).unwrap();
        assert_eq!(one.certificate(&domain).unwrap().unwrap().names(), ["*.box.example"]);
        assert!(two.certificate(&domain).unwrap().is_none());
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(one.0.clone()), mode(one.0.join(domain.file_name()))), (0o700, 0o600));
        let other = made(&["*.box.example"], 2099).1;
        assert!(one.keep_certificate(&domain, &other, &chain).is_err(), "a key that does not match is not stored");
        assert!(one.certificate(&domain).unwrap().is_some());
        fs::write(one.0.join(domain.file_name()), "broken").unwrap();
        assert!(one.certificate(&domain).is_err());
    }

    #[test]
    fn a_broken_account_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let store = AcmeStore::open(folder.path(), "https://../../etc").unwrap();
        assert!(store.0.starts_with(folder.path()) && store.account().unwrap().is_none());
        fs::write(store.0.join(ACCOUNT), "{").unwrap();
        assert!(store.account().unwrap().is_none());
        store.forget_account();
        assert!(!store.0.join(ACCOUNT).exists());
    }
}
