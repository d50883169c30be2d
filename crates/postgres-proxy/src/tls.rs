//! TLS of the proxy. The certificates come from outside and may change at any time.

use std::sync::Arc;

use tokio_rustls::rustls::{self, ServerConfig, crypto::ring, server::ResolvesServerCert};

/// The protocol's name in ALPN. Direct TLS requires it; after an SSLRequest it may be absent.
pub const ALPN: &[u8] = b"postgresql";

/// The settings of TLS: 1.2 and 1.3, without client certificates.
pub fn server_config(certificates: Arc<dyn ResolvesServerCert>) -> Result<Arc<ServerConfig>, rustls::Error> {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions()?.with_no_client_auth();
    let mut config = config.with_cert_resolver(certificates);
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}
