//! A sandbox's egress policy, as its owner sets it. The host's own restrictions apply as well.

use std::{fmt, net::Ipv4Addr, str::FromStr};

/// Most rules in one list.
pub const EGRESS_RULES_MAX: usize = 256;

/// Egress policy of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Egress {
    /// The Internet, as far as the host allows it.
    #[default]
    Open,
    /// Only the listed targets. An empty list allows nothing.
    Only(Vec<EgressRule>),
}

/// One allowed target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EgressRule {
    /// Exactly this name, in lower case, without a final dot.
    Host(String),
    /// Every name below this one, not the name itself: written `*.name`.
    Below(String),
    /// Every address of a network, regardless of host names.
    Net { address: Ipv4Addr, bits: u8 },
}

/// Text that is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a host name, a `*.suffix` or an IPv4 network: {reason}")]
pub struct BadEgressRule {
    text: String,
    reason: &'static str,
}

impl EgressRule {
    /// Whether the rule matches a name, given in lower case and without a final dot.
    pub fn names(&self, name: &str) -> bool {
        match self {
            EgressRule::Host(host) => host == name,
            EgressRule::Below(suffix) => name.strip_suffix(suffix.as_str()).is_some_and(|front| front.ends_with('.')),
            EgressRule::Net { .. } => false,
        }
    }
}

impl Egress {
    /// Whether a name may be resolved.
    pub fn names(&self, name: &str) -> bool {
        match self {
            Egress::Open => true,
            Egress::Only(rules) => rules.iter().any(|rule| rule.names(name)),
        }
    }
}

impl FromStr for EgressRule {
    type Err = BadEgressRule;

    fn from_str(text: &str) -> Result<Self, BadEgressRule> {
        let bad = |reason| BadEgressRule { text: text.chars().take(80).collect(), reason };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        if let Ok(address) = address.parse::<Ipv4Addr>() {
            let bits = bits.map_or(Ok(32), str::parse::<u8>).map_err(|_| bad("the prefix length is not a number"))?;
            if bits > 32 {
                return Err(bad("the prefix length is over 32"));
            }
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            return match address.to_bits() & !mask {
                0 => Ok(EgressRule::Net { address, bits }),
                _ => Err(bad("the address has bits set beyond its prefix length")),
            };
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        match name.strip_prefix("*.") {
            Some(suffix) => host_name(suffix).map(|()| EgressRule::Below(suffix.to_owned())),
            None => host_name(&name).map(|()| EgressRule::Host(name.clone())),
        }
        .map_err(bad)
    }
}

impl fmt::Display for EgressRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EgressRule::Host(host) => f.write_str(host),
            EgressRule::Below(suffix) => write!(f, "*.{suffix}"),
            EgressRule::Net { address, bits: 32 } => write!(f, "{address}"),
            EgressRule::Net { address, bits } => write!(f, "{address}/{bits}"),
        }
    }
}

fn host_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > 253 {
        return Err("a name must have 1 to 253 bytes");
    }
    for label in name.split('.') {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if label.is_empty() || label.len() > 63 || !label.bytes().all(known) {
            return Err("labels must have 1 to 63 letters, digits, `-` or `_`");
        }
    }
    // Resolvers would read a name whose last label is a number as an address.
    if name.split('.').next_back().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err("the last label must not be a number");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn check(text: &str, printed: &str) {
        assert_eq!(text.parse::<EgressRule>().unwrap().to_string(), printed, "{text}");
    }

    #[test]
    fn rules_are_read_and_printed() {
        check("pypi.org", "pypi.org");
        check("PyPI.org.", "pypi.org");
        check("*.Debian.org", "*.debian.org");
        check("203.0.113.0/24", "203.0.113.0/24");
        check("203.0.113.7", "203.0.113.7");
        check("0.0.0.0/0", "0.0.0.0/0");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "*",
            "*.",
            "a..b",
            "a b",
            "http://x",
            "10.0.0.1/8",
            "10.0.0.0/33",
            "1.2.3",
            "::1",
            "a.*.b",
            "10.0.0.0/",
        ] {
            assert!(text.parse::<EgressRule>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_suffix_means_what_is_below_it() {
        let rule: EgressRule = "*.debian.org".parse().unwrap();
        assert!(rule.names("deb.debian.org") && rule.names("a.b.debian.org"));
        assert!(!rule.names("debian.org") && !rule.names("notdebian.org") && !rule.names("debian.org.evil.example"));
        assert!(!Egress::Only(Vec::new()).names("debian.org"));
    }

    fn name() -> impl Strategy<Value = String> {
        vec("[a-z0-9_-]{1,8}", 0..3)
            .prop_map(|front| [front.concat(), "top".to_owned()].join(".").replace("..", "."))
            .prop_map(|name| name.trim_start_matches('.').to_owned())
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_again(text in "[*.a-z0-9/_-]{0,20}") {
            if let Ok(rule) = text.parse::<EgressRule>() {
                prop_assert_eq!(rule.to_string().parse::<EgressRule>(), Ok(rule));
            }
        }

        #[test]
        fn any_text_is_read_without_harm(text in any::<String>()) {
            let _ = text.parse::<EgressRule>();
        }

        #[test]
        fn a_name_means_itself_and_a_suffix_what_is_below(suffix in name(), front in "[a-z0-9_-]{1,8}", other in name()) {
            let (host, below) = (EgressRule::Host(suffix.clone()), EgressRule::Below(suffix.clone()));
            prop_assert!(host.names(&suffix) && !below.names(&suffix));
            let longer = format!("{front}.{suffix}");
            prop_assert!(below.names(&longer) && !host.names(&longer));
            let glued = format!("{front}{suffix}");
            prop_assert!(!host.names(&glued) && !below.names(&glued));
            let labels = |name: &str| name.split('.').rev().map(str::to_owned).collect::<Vec<_>>();
            let under = labels(&other).len() > labels(&suffix).len() && labels(&other).starts_with(&labels(&suffix));
            prop_assert_eq!(below.names(&other), under);
        }

        #[test]
        fn a_list_names_what_one_of_its_rules_names(rules in vec(name(), 0..5), asked in name()) {
            let rules: Vec<_> = rules.into_iter().enumerate().map(|(at, name)| match at % 2 {
                0 => EgressRule::Host(name),
                _ => EgressRule::Below(name),
            }).collect();
            let any = rules.iter().any(|rule| rule.names(&asked));
            prop_assert_eq!(Egress::Only(rules).names(&asked), any);
            prop_assert!(Egress::Open.names(&asked));
        }
    }
}
