//! Documents of an identity provider: where they may be, and how they are fetched. The operator
//! names the provider, so that the address policy of the `Dialer` is the operator's choice too.

use async_trait::async_trait;
use bytes::Bytes;
use pandastack_dial::http::{HttpClient, HttpError, HttpRequest, StatusCode};
use url::Host;
pub use url::Url;

use crate::limits::PROVIDER_URL_BYTES_MAX;

/// Fetches documents. A test may put its own in place of the network.
#[async_trait]
pub trait FetchDocument: Send + Sync + 'static {
    /// Returns a document of at most so many bytes.
    async fn fetch(&self, url: &Url, bytes_max: usize) -> Result<Bytes, FetchError>;
}

/// Why a document could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("the provider answered {status}; only 200 is accepted, and redirects are not followed")]
    Status { status: u16 },
    #[error("the document is larger than {bytes_max} bytes")]
    TooLarge { bytes_max: usize },
}

/// Why an address of a provider cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderUrlError {
    #[error("an address of the identity provider has more than {PROVIDER_URL_BYTES_MAX} bytes")]
    TooLong,
    #[error("{url:?} is not a valid web address")]
    Malformed { url: String },
    #[error("{url:?} must begin with https://; http:// is allowed for a provider on this host only")]
    NotSecure { url: String },
    /// Does not repeat the address, which may contain a password.
    #[error("an address of the identity provider contains a user name, a password or a fragment")]
    Decorated,
}

#[async_trait]
impl FetchDocument for HttpClient {
    async fn fetch(&self, url: &Url, bytes_max: usize) -> Result<Bytes, FetchError> {
        let answer = self.send(HttpRequest::get(url.clone())).await?;
        if answer.status != StatusCode::OK {
            return Err(FetchError::Status { status: answer.status.as_u16() });
        }
        if answer.body.len() > bytes_max {
            return Err(FetchError::TooLarge { bytes_max });
        }
        Ok(answer.body)
    }
}

/// Checks an address that the settings or the provider name. Keys and codes that travel without TLS
/// could be replaced, so plain HTTP is for loopback only.
pub fn provider_url(text: &str) -> Result<Url, ProviderUrlError> {
    let url = web_url(text)?;
    let is_local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    if url.scheme() == "https" || is_local {
        Ok(url)
    } else {
        Err(ProviderUrlError::NotSecure { url: text.to_owned() })
    }
}

/// Checks an address of any web page.
pub(crate) fn web_url(text: &str) -> Result<Url, ProviderUrlError> {
    if text.len() > PROVIDER_URL_BYTES_MAX {
        return Err(ProviderUrlError::TooLong);
    }
    let malformed = || ProviderUrlError::Malformed { url: text.to_owned() };
    // The parser would remove them and accept the rest.
    if text.contains(|letter: char| letter.is_control() || letter.is_whitespace()) {
        return Err(malformed());
    }
    let url = Url::parse(text).map_err(|_| malformed())?;
    if !matches!(url.scheme(), "https" | "http") {
        return Err(malformed());
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(ProviderUrlError::Decorated);
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pandastack_dial::{AddressPolicy, Dialer, TrustRoots, http::HttpLimits};
    use pandastack_kit::Scope;

    use super::*;
    use crate::{
        provider::{OidcProvider, ProviderSetup},
        testing::TestClock,
    };

    #[tokio::test]
    async fn only_a_whole_document_within_its_bound_is_accepted() {
        let scope = Scope::new();
        let setup = ProviderSetup::new(Arc::new(TestClock::new()), scope.clone());
        let provider = OidcProvider::start(setup).await.unwrap();
        let dialer = Dialer::new(AddressPolicy::Private, TrustRoots::Host, scope.clone());
        let http = HttpClient::new(dialer, scope, HttpLimits::default());
        let url = |path: &str| Url::parse(&format!("{}{path}", provider.issuer())).unwrap();
        let document = http.fetch(&url("/keys"), 10_000).await.unwrap();
        let exact = http.fetch(&url("/keys"), document.len()).await.unwrap();
        assert_eq!(exact, document);
        let over = http.fetch(&url("/keys"), document.len() - 1).await;
        assert!(matches!(over, Err(FetchError::TooLarge { .. })), "{over:?}");
        let missing = http.fetch(&url("/other"), 10_000).await;
        assert!(matches!(missing, Err(FetchError::Status { status: 404 })), "{missing:?}");
    }

    #[test]
    fn a_provider_is_reached_over_tls_or_on_this_host() {
        for text in ["https://id.example/realms/x", "http://127.0.0.1:8080", "http://localhost/x", "http://[::1]:1/"] {
            assert!(provider_url(text).is_ok(), "{text}");
        }
        for text in ["http://id.example/", "http://localhost.id.example/", "http://10.0.0.1/"] {
            assert!(matches!(provider_url(text), Err(ProviderUrlError::NotSecure { .. })), "{text}");
        }
        for text in ["", "id.example", "ftp://127.0.0.1/", "https://", "https://a b.example", "https://a.example/\n"] {
            assert!(matches!(provider_url(text), Err(ProviderUrlError::Malformed { .. })), "{text}");
        }
        for text in ["https://u:p@id.example/", "https://id.example/#x"] {
            assert_eq!(provider_url(text), Err(ProviderUrlError::Decorated), "{text}");
        }
        let long = format!("https://id.example/{}", "x".repeat(PROVIDER_URL_BYTES_MAX));
        assert_eq!(provider_url(&long), Err(ProviderUrlError::TooLong));
    }
}
