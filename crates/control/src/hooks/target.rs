//! The address of a webhook, checked once. The IP addresses that it resolves to are checked at each
//! connection.

use std::net::IpAddr;

use pandastack_model::{Fault, FaultKind};
use url::{Host, Url};

use crate::{
    dial::{AddressPolicy, refused},
    limits::WEBHOOK_URL_BYTES_MAX,
};

/// The destination of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpTarget {
    url: Url,
}

impl HttpTarget {
    /// Parses an address. An address that is visibly not allowed is refused already here.
    pub fn parse(text: &str, reach: AddressPolicy) -> Result<Self, Fault> {
        if text.len() > WEBHOOK_URL_BYTES_MAX {
            return Err(bad(format!("url must have at most {WEBHOOK_URL_BYTES_MAX} bytes")));
        }
        // The parser would remove them and accept the rest as one address.
        if text.chars().any(char::is_control) {
            return Err(bad("url must not contain control characters"));
        }
        let mut url = Url::parse(text).map_err(|error| bad(format!("url is not valid: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad("url must begin with https:// or http://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("url must not contain a user name or password; verify the signature instead"));
        }
        if url.port() == Some(0) {
            return Err(bad("url must not have port 0"));
        }
        url.set_fragment(None);
        let target = Self { url };
        if reach == AddressPolicy::Public {
            target.check_name()?;
        }
        Ok(target)
    }

    /// Returns the address as it is stored.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Returns the host name or IP address, without brackets.
    pub fn host(&self) -> String {
        match self.url.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            None => String::new(),
        }
    }

    pub fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or(80)
    }

    /// Returns the value of the Host header.
    pub fn authority(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Returns the path and query.
    pub fn path_and_query(&self) -> String {
        self.url.query().map_or_else(|| self.url.path().to_owned(), |query| format!("{}?{query}", self.url.path()))
    }

    fn check_name(&self) -> Result<(), Fault> {
        let literal = match self.url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            Some(Host::Domain(name)) => {
                let name = name.trim_end_matches('.');
                if name == "localhost" || name.ends_with(".localhost") {
                    return Err(not_allowed("an address of this host"));
                }
                None
            }
            None => return Err(bad("url has no host")),
        };
        literal.and_then(refused).map_or(Ok(()), |why| Err(not_allowed(why)))
    }
}

fn bad(text: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Caller, "webhook.bad_url", text)
}

fn not_allowed(why: &str) -> Fault {
    let text = format!(
        "url leads to an address that is not public ({why}); the operator can allow such addresses with \
         --webhook-allow-private"
    );
    Fault::new(FaultKind::Caller, "webhook.address_not_allowed", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str, reach: AddressPolicy) -> Option<&'static str> {
        HttpTarget::parse(text, reach).err().map(|fault| fault.code)
    }

    #[test]
    fn addresses_are_taken_apart() {
        let target = HttpTarget::parse("https://Hooks.example:8443/a b?x=1#secret", AddressPolicy::Public).unwrap();
        assert_eq!((target.host().as_str(), target.port(), target.is_https()), ("hooks.example", 8443, true));
        assert_eq!(target.authority(), "hooks.example:8443");
        assert_eq!(target.path_and_query(), "/a%20b?x=1");
        let target = HttpTarget::parse("http://[2606:4700::1]", AddressPolicy::Public).unwrap();
        assert_eq!((target.host().as_str(), target.authority().as_str()), ("2606:4700::1", "[2606:4700::1]"));
        assert_eq!((target.port(), target.path_and_query().as_str()), (80, "/"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for text in [
            "",
            "x",
            "/hook",
            "ftp://a.example",
            "file:///etc/passwd",
            "http://",
            "http://u:p@a.example",
            "http://u@a.example",
            "http://a.example:0",
            "http://a.example:99999",
            "gopher://a.example",
            "javascript:alert(1)",
        ] {
            assert_eq!(code(text, AddressPolicy::Private), Some("webhook.bad_url"), "{text}");
        }
        assert_eq!(
            code(&format!("http://a.example/{}", "x".repeat(2048)), AddressPolicy::Public),
            Some("webhook.bad_url")
        );
    }

    #[test]
    fn every_spelling_of_a_near_address_is_seen_through() {
        for host in [
            "127.0.0.1",
            "127.1",
            "0x7f.1",
            "2130706433",
            "0177.0.0.1",
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "[::1]",
            "[::ffff:10.0.0.1]",
            "[::ffff:a00:1]",
            "169.254.169.254",
            "0",
            "%31%32%37.1",
            "１２７.0.0.1",
            "[fd00:ec2::254]",
        ] {
            let text = format!("http://{host}/latest");
            assert_eq!(code(&text, AddressPolicy::Public), Some("webhook.address_not_allowed"), "{text}");
            assert_eq!(code(&text, AddressPolicy::Private), None, "{text}");
        }
    }
}
