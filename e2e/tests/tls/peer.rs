//! A certificate authority of the test's own, and a TLS client that shows what a server presents.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
        client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        crypto::ring,
        pki_types::{CertificateDer, ServerName, UnixTime},
    },
};

pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(rcgen::DnType::CommonName, "Authority of a test");
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        roots
    }

    /// Makes a certificate with a new key.
    pub fn issue(&self, name: &str) -> (String, String) {
        self.issue_until(name, 2099)
    }

    /// Makes a certificate that ends with a year's first day.
    pub fn issue_until(&self, name: &str, year: i32) -> (String, String) {
        let (mut params, key) = (CertificateParams::new(vec![name.to_owned()]).unwrap(), KeyPair::generate().unwrap());
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        // Newer Pythons ask for it.
        params.use_authority_key_identifier_extension = true;
        (params.signed_by(&key, &*self.0).unwrap().pem(), key.serialize_pem())
    }
}

/// Connects to a server of this computer by a name, and checks its certificate.
pub async fn connect(port: u16, name: &str, roots: &RootCertStore) -> std::io::Result<TlsStream<TcpStream>> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    open(port, name, config.with_root_certificates(roots.clone()).with_no_client_auth()).await
}

async fn open(port: u16, name: &str, config: ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// The certificate that a server presents for a name, if it is trusted.
pub async fn certificate(port: u16, name: &str, roots: &RootCertStore) -> std::io::Result<Vec<u8>> {
    let stream = connect(port, name, roots).await?;
    Ok(stream.get_ref().1.peer_certificates().unwrap()[0].to_vec())
}

/// The text of the certificate that a server presents, trusted or not, expired or not.
pub async fn issued_by(port: u16, name: &str) -> std::io::Result<String> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().dangerous();
    let config = config.with_custom_certificate_verifier(Arc::new(Anything)).with_no_client_auth();
    let stream = open(port, name, config).await?;
    Ok(String::from_utf8_lossy(&stream.get_ref().1.peer_certificates().unwrap()[0]).into_owned())
}

/// Accepts every certificate.
#[derive(Debug)]
struct Anything;

impl ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
