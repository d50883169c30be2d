//! Domains to get a certificate for.

use std::{fmt, str::FromStr};

const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// A DNS name in lower case, or a wildcard for one label below it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AcmeDomain {
    name: String,
    is_wildcard: bool,
}

/// Why a text is no domain that an ACME server can check.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no domain: use a DNS name such as api.example.com, or a wildcard such as *.box.example.com")]
pub struct AcmeDomainError {
    text: String,
}

impl AcmeDomain {
    pub fn is_wildcard(&self) -> bool {
        self.is_wildcard
    }

    /// The name without the wildcard.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name of the TXT record that proves the domain.
    pub fn record(&self) -> String {
        format!("_acme-challenge.{}", self.name)
    }

    /// A file name. An underscore is in no domain, so no two domains have the same.
    pub fn file_name(&self) -> String {
        format!("{}{}.pem", if self.is_wildcard { "_wildcard." } else { "" }, self.name)
    }
}

impl FromStr for AcmeDomain {
    type Err = AcmeDomainError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (is_wildcard, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, text),
        };
        let is_label = |label: &str| {
            (1..=LABEL_BYTES_MAX).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        let is_address = name.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
        if name.len() > NAME_BYTES_MAX || !name.contains('.') || is_address || !name.split('.').all(is_label) {
            return Err(AcmeDomainError { text: text.chars().take(NAME_BYTES_MAX).collect() });
        }
        Ok(Self { name: name.to_ascii_lowercase(), is_wildcard })
    }
}

impl fmt::Display for AcmeDomain {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", if self.is_wildcard { "*." } else { "" }, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_an_authority_can_check_pass() {
        let domain: AcmeDomain = "*.Box.example.com".parse().unwrap();
        assert_eq!((domain.to_string().as_str(), domain.name()), ("*.box.example.com", "box.example.com"));
        assert_eq!(domain.record(), "_acme-challenge.box.example.com");
        assert_eq!(domain.file_name(), "_wildcard.box.example.com.pem");
        let plain: AcmeDomain = "api.example.com".parse().unwrap();
        assert_eq!((plain.file_name().as_str(), plain.is_wildcard()), ("api.example.com.pem", false));
        let long = format!("{}.com", "a.".repeat(130));
        for text in [
            "",
            "*",
            "*.",
            "com",
            "a..com",
            ".com",
            "a.com.",
            "-a.com",
            "a-.com",
            "a_b.com",
            "a/b.com",
            "..",
            "é.fr",
            "*.*.com",
            "a.*.com",
            "1.2.3.4",
            "[::1]",
            "a.com:80",
            "https://a.com",
            &long,
        ] {
            assert!(text.parse::<AcmeDomain>().is_err(), "{text}");
        }
    }
}
