//! The network address of a client, also behind a proxy.

use std::net::IpAddr;

use axum::http::{Extensions, HeaderMap};

use crate::PeerAddress;

/// Whether a proxy in front of the server is believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyTrust {
    #[default]
    None,
    /// The last address of `X-Forwarded-For` is the client's.
    Last,
}

impl ProxyTrust {
    /// Returns the address of the client that sent a request, if it is known.
    pub fn client_address(self, headers: &HeaderMap, extensions: &Extensions) -> Option<IpAddr> {
        let forwarded = || {
            let last = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?.rsplit(',').next()?;
            last.trim().parse().ok()
        };
        let named = (self == ProxyTrust::Last).then(forwarded).flatten();
        named.or_else(|| extensions.get::<PeerAddress>().map(|PeerAddress(address)| *address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_trusted_proxy_names_the_client() {
        let mut headers = HeaderMap::new();
        headers.append("x-forwarded-for", "192.0.2.1, 192.0.2.2".parse().unwrap());
        let mut extensions = Extensions::new();
        assert_eq!(ProxyTrust::None.client_address(&headers, &extensions), None);
        let peer: IpAddr = "192.0.2.9".parse().unwrap();
        extensions.insert(PeerAddress(peer));
        assert_eq!(ProxyTrust::None.client_address(&headers, &extensions), Some(peer));
        let named = Some("192.0.2.2".parse().unwrap());
        assert_eq!(ProxyTrust::Last.client_address(&headers, &extensions), named);
        headers.append("x-forwarded-for", "nonsense".parse().unwrap());
        assert_eq!(ProxyTrust::Last.client_address(&headers, &extensions), Some(peer));
    }
}
