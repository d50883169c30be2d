//! Host names below the preview suffix: `{port}-{sandbox}` for public previews, `link-{hex}` for
//! signed links. The only parser of them. A name that it does not recognise belongs to the API.

use std::{fmt, str::FromStr};

use crate::{BadPort, GuestPort, SandboxId};

/// Longest host name and longest label, as DNS limits them.
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;
/// Space for the label before the suffix, and its dot.
const LABEL_ROOM: usize = LABEL_BYTES_MAX + 1;

/// Bytes of a token's digest in its link's name. 160 bits make a second token with the same name
/// infeasible to find.
pub const LINK_LABEL_BYTES: usize = 20;
const LINK_PREFIX: &str = "link-";
const _: () = assert!(LINK_PREFIX.len() + 2 * LINK_LABEL_BYTES <= LABEL_BYTES_MAX, "the name fits one DNS label");

/// Parent domain of all previews, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewSuffix(String);

/// Text that cannot be a suffix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a preview domain; write it like preview.example.com, without a port")]
pub struct BadPreviewSuffix(String);

/// The parsed name of a preview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviewName {
    pub port: GuestPort,
    pub sandbox: SandboxId,
}

/// First label of a signed link's host name. It is derived from the token, so each link has its own
/// web origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLabel([u8; LINK_LABEL_BYTES]);

/// A name that has the form of a preview but is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPreview {
    #[error("the host name contains no sandbox id")]
    Sandbox,
    #[error(transparent)]
    Port(#[from] BadPort),
}

impl PreviewSuffix {
    /// Returns the suffix as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses a `Host` header. `None` if it is not a preview's name.
    pub fn preview(&self, host: &str) -> Option<Result<PreviewName, BadPreview>> {
        let label = self.label(host)?;
        let (port, id) = label.split_once('-')?;
        if !is_label(id) {
            return None;
        }
        match (port.parse::<GuestPort>(), id.parse::<SandboxId>()) {
            (Err(BadPort::Range), _) => None,
            (Err(refused @ BadPort::Agent), _) => Some(Err(refused.into())),
            (Ok(_), Err(_)) => Some(Err(BadPreview::Sandbox)),
            (Ok(port), Ok(sandbox)) => Some(Ok(PreviewName { port, sandbox })),
        }
    }

    /// Parses a `Host` header. `None` if it is not the name of a signed link.
    pub fn link(&self, host: &str) -> Option<LinkLabel> {
        let label = self.label(host)?;
        let hex = label.strip_prefix(LINK_PREFIX).filter(|hex| hex.len() == 2 * LINK_LABEL_BYTES)?;
        let mut bytes = [0; LINK_LABEL_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|c| c.is_ascii_hexdigit()))?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(LinkLabel(bytes))
    }

    /// Returns the one label before the suffix, in lower case.
    fn label(&self, host: &str) -> Option<String> {
        let name = without_port(host)?;
        let name = name.strip_suffix('.').unwrap_or(name);
        let (label, suffix) = name.split_once('.')?;
        let ours = suffix.eq_ignore_ascii_case(&self.0) && label.len() <= LABEL_BYTES_MAX;
        ours.then(|| label.to_ascii_lowercase())
    }
}

impl LinkLabel {
    /// Makes the label from a token's digest.
    pub fn new(digest: [u8; LINK_LABEL_BYTES]) -> Self {
        Self(digest)
    }
}

impl fmt::Display for LinkLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(LINK_PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// `localhost`: browsers resolve every name below it to the local machine.
impl Default for PreviewSuffix {
    fn default() -> Self {
        Self("localhost".to_owned())
    }
}

impl FromStr for PreviewSuffix {
    type Err = BadPreviewSuffix;

    fn from_str(text: &str) -> Result<Self, BadPreviewSuffix> {
        let name = text.to_ascii_lowercase();
        let fits = name.len() <= NAME_BYTES_MAX - LABEL_ROOM;
        let labels = name.split('.').all(|label| is_label(label) && !label.ends_with('-'));
        if fits && labels { Ok(Self(name)) } else { Err(BadPreviewSuffix(text.chars().take(80).collect())) }
    }
}

impl fmt::Display for PreviewSuffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for PreviewName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.port, self.sandbox)
    }
}

/// Removes `:port`. `None` if the text is not a name, such as an IPv6 address.
fn without_port(host: &str) -> Option<&str> {
    let Some((name, port)) = host.split_once(':') else { return Some(host) };
    port.bytes().all(|byte| byte.is_ascii_digit()).then_some(name)
}

/// Whether text is a lowercase host name label that does not begin with a hyphen.
fn is_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LABEL_BYTES_MAX).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "550e8400-e29b-41d4-a716-446655440000";

    fn suffix(text: &str) -> PreviewSuffix {
        text.parse().unwrap()
    }

    fn check(host: &str, expected: Option<Result<u16, BadPreview>>) {
        let found = suffix("box.example.com").preview(host);
        let found = found.map(|found| found.map(|name| (name.port.get(), name.sandbox.to_string())));
        assert_eq!(found, expected.map(|port| port.map(|port| (port, ID.to_owned()))), "{host:?}");
    }

    #[test]
    fn names_of_previews() {
        check(&format!("3000-{ID}.box.example.com"), Some(Ok(3000)));
        check(&format!("3000-{ID}.box.example.com:8080"), Some(Ok(3000)));
        check(&format!("80-{}.BOX.Example.com.", ID.to_uppercase()), Some(Ok(80)));
        check(&format!("1050-{ID}.box.example.com"), Some(Err(BadPort::Agent.into())));
        check("3000-nobody.box.example.com", Some(Err(BadPreview::Sandbox)));
        check(&format!("3000-{}.box.example.com", ID.replace('-', "")), Some(Err(BadPreview::Sandbox)));
    }

    #[test]
    fn everything_else_is_somebody_elses() {
        for host in [
            String::new(),
            "box.example.com".to_owned(),
            "api.box.example.com".to_owned(),
            format!("3000-{ID}"),
            format!("3000-{ID}.example.com"),
            format!("3000-{ID}.box.example.com.evil.org"),
            format!("a.3000-{ID}.box.example.com"),
            format!("3000-{ID}.x.box.example.com"),
            format!("3000-{ID}xbox.example.com"),
            format!("0-{ID}.box.example.com"),
            format!("65536-{ID}.box.example.com"),
            format!("03000-{ID}.box.example.com"),
            format!("-3000-{ID}.box.example.com"),
            format!("3000--{ID}.box.example.com"),
            format!("3000-{ID}.box.example.com:80:80"),
            format!("3000-{ID}.box.example.com:http"),
            format!("user@3000-{ID}.box.example.com"),
            "[::1]:8080".to_owned(),
            "127.0.0.1:8080".to_owned(),
            format!("3000-{}.box.example.com", "x".repeat(64)),
        ] {
            check(&host, None);
        }
    }

    #[test]
    fn names_of_signed_links() {
        let (box_, label) = (suffix("box.example.com"), LinkLabel::new([0xa7; LINK_LABEL_BYTES]));
        let name = label.to_string();
        assert_eq!(name, format!("link-{}", "a7".repeat(20)));
        for host in [
            format!("{name}.box.example.com"),
            format!("{}.BOX.example.com.", name.to_uppercase()),
            format!("{name}.box.example.com:8080"),
        ] {
            assert_eq!(box_.link(&host), Some(label), "{host}");
            assert_eq!(box_.preview(&host), None, "{host}");
        }
        for host in [
            name.clone(),
            format!("{name}.example.com"),
            format!("{name}0.box.example.com"),
            format!("{}.box.example.com", &name[..name.len() - 1]),
            format!("x.{name}.box.example.com"),
            format!("{}+g.box.example.com", &name[..name.len() - 2]),
            format!("link-{}.box.example.com", "é".repeat(20)),
            format!("3000-{ID}.box.example.com"),
        ] {
            assert_eq!(box_.link(&host), None, "{host}");
        }
    }

    #[test]
    fn suffixes_are_domains() {
        assert_eq!(suffix("Preview.Example.COM").as_str(), "preview.example.com");
        assert_eq!(suffix("localhost").as_str(), "localhost");
        let long = vec!["a".repeat(63); 4].join(".");
        for bad in ["", ".", "a.", ".a", "a..b", "-a", "a-", "a b", "é.fr", "a:80", "http://a", "*.a", &long] {
            assert!(bad.parse::<PreviewSuffix>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn every_name_is_read_as_it_was_written(
            port in 1_i64..=65_535, id in any::<u128>(), upper in any::<bool>(), listen in proptest::option::of(any::<u16>())
        ) {
            prop_assume!(port != i64::from(crate::AGENT_PORT));
            let sandbox: SandboxId = uuid::Uuid::from_u128(id).to_string().parse().unwrap();
            let name = PreviewName { port: port.try_into().unwrap(), sandbox };
            let mut host = format!("{name}.box.example.com");
            if upper {
                host.make_ascii_uppercase();
            }
            host.extend(listen.map(|listen| format!(":{listen}")));
            prop_assert_eq!(suffix("box.example.com").preview(&host), Some(Ok(name)));
        }

        #[test]
        fn no_text_panics_and_none_has_two_meanings(host in "\\PC{0,120}") {
            if let Some(Ok(name)) = suffix("localhost").preview(&host) {
                let plain = host.to_ascii_lowercase();
                let written = format!("{name}.localhost");
                prop_assert!(plain.starts_with(&written));
            }
            if let Some(label) = suffix("localhost").link(&host) {
                let (plain, written) = (host.to_ascii_lowercase(), format!("{label}.localhost"));
                prop_assert!(plain.starts_with(&written));
            }
        }

        #[test]
        fn near_misses_never_reach_the_agent(host in "(0{0,3}[0-9]{1,6}|1050)[-.]{1,2}[0-9a-fA-F-]{30,40}\\.{0,2}(localhost|LOCALHOST)?\\.?(:[0-9]{0,6})?") {
            if let Some(Ok(name)) = suffix("localhost").preview(&host) {
                prop_assert_ne!(name.port.get(), crate::AGENT_PORT);
            }
        }
    }
}
