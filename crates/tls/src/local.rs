//! A certificate authority of this server's own, for names that no public authority signs. Its
//! certificate lies in the data folder; who trusts it can verify the server.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use crate::{CertificateError, ServedCertificate};

/// Files of the authority.
const CERTIFICATE_FILE: &str = "ca.pem";
const KEY_FILE: &str = "ca.key";

/// Name of the authority in its certificate.
const NAME: &str = "PandaStack local authority";

/// Why there is no local authority.
#[derive(Debug, thiserror::Error)]
pub enum LocalAuthorityError {
    #[error("{action} {}", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("make a certificate")]
    Make(#[from] rcgen::Error),
    #[error(transparent)]
    Serve(#[from] CertificateError),
}

/// The authority of a server.
pub struct LocalAuthority {
    /// The file that clients trust.
    pub certificate: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl LocalAuthority {
    /// Opens the authority in a folder, or makes one.
    pub fn open(folder: &Path) -> Result<Self, LocalAuthorityError> {
        let (certificate, key) = (folder.join(CERTIFICATE_FILE), folder.join(KEY_FILE));
        if !certificate.exists() {
            make(folder, &certificate, &key)?;
        }
        let read = |path: &Path| {
            fs::read_to_string(path).map_err(|cause| LocalAuthorityError::File {
                action: "read",
                path: path.to_owned(),
                cause,
            })
        };
        // Only the key and the name matter for signing.
        let _ = read(&certificate)?;
        let issuer = Issuer::new(parameters()?, KeyPair::from_pem(&read(&key)?)?);
        Ok(Self { certificate, issuer })
    }

    /// Makes a certificate for names. A key of its own is kept in memory only.
    pub fn issue(&self, names: &[String]) -> Result<ServedCertificate, LocalAuthorityError> {
        let mut leaf = CertificateParams::new(names.to_vec())?;
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        if let Some(name) = names.first() {
            leaf.distinguished_name.push(DnType::CommonName, name);
        }
        let key = KeyPair::generate()?;
        let chain = leaf.signed_by(&key, &self.issuer)?.pem();
        let place = "the local certificate";
        Ok(ServedCertificate::from_pem(chain.as_bytes(), key.serialize_pem().as_bytes(), place, place)?)
    }
}

fn parameters() -> Result<CertificateParams, rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.distinguished_name = Default::default();
    authority.distinguished_name.push(DnType::CommonName, NAME);
    Ok(authority)
}

/// Writes the key first: a certificate without its key would be trusted in vain.
fn make(folder: &Path, certificate: &Path, key: &Path) -> Result<(), LocalAuthorityError> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |cause| LocalAuthorityError::File { action, path, cause }
    };
    fs::create_dir_all(folder).map_err(failed("make", folder))?;
    let pair = KeyPair::generate()?;
    let signed = parameters()?.self_signed(&pair)?;
    write(key, &pair.serialize_pem(), 0o600).map_err(failed("write", key))?;
    write(certificate, &signed.pem(), 0o644).map_err(failed("write", certificate))
}

fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    let fresh = path.with_extension("new");
    let _ = fs::remove_file(&fresh);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_authority_is_made_once_and_signs_for_wildcards() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("authority");
        let first = LocalAuthority::open(&place).unwrap();
        let text = fs::read_to_string(&first.certificate).unwrap();
        let again = LocalAuthority::open(&place).unwrap();
        assert_eq!(fs::read_to_string(&again.certificate).unwrap(), text);
        let served = again.issue(&["*.db.localhost".to_owned()]).unwrap();
        assert_eq!(served.names(), ["*.db.localhost"]);
        assert!(!served.is_expired(std::time::SystemTime::now()));
        let mode = fs::metadata(place.join(KEY_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "others may read the key");
    }
}
