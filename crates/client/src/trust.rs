//! The certificate authorities that the client trusts for https: those of this computer
//! (`SSL_CERT_FILE` replaces them), and those in the file that `PANDASTACK_CA_FILE` names.

use std::{path::Path, sync::Arc};

use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

use crate::ClientError;

/// Variable with the path of a PEM file.
const CA_FILE: &str = "PANDASTACK_CA_FILE";

/// Makes the TLS settings for a server. Without https nothing is read.
pub fn tls_settings(url: &str) -> Result<ClientConfig, ClientError> {
    let mut roots = RootCertStore::empty();
    if is_https(url) {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = std::env::var_os(CA_FILE).filter(|path| !path.is_empty()) {
            roots.add_parsable_certificates(read(Path::new(&path))?);
        }
        if roots.is_empty() {
            let what = "this computer trusts no certificate authority".to_owned();
            return Err(ClientError::Trust { what });
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions();
    let config = config.map_err(|error| ClientError::Trust { what: format!("TLS cannot be set up: {error}") })?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn is_https(url: &str) -> bool {
    url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"))
}

fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let bad = |why: &str| ClientError::Trust { what: format!("{CA_FILE} names {}, but {why}", path.display()) };
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match found {
        Ok(found) if found.is_empty() => Err(bad("it contains no PEM certificate")),
        Ok(found) => Ok(found),
        Err(error) => Err(bad(&format!("it cannot be read: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        for (path, part) in [("/nothing/ca.pem", "/nothing/ca.pem"), ("/dev/null", "no PEM certificate")] {
            let text = read(Path::new(path)).unwrap_err().to_string();
            assert!(text.contains(part) && text.contains(CA_FILE), "{text}");
        }
    }

    #[test]
    fn only_https_needs_authorities() {
        assert!(tls_settings("http://127.0.0.1:1").is_ok());
        assert!(is_https("HTTPS://a.example") && !is_https("http://a") && !is_https("") && !is_https("é"));
    }
}
