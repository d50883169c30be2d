//! E-mail addresses, normalised and checked once. Only ASCII: other letters have several spellings,
//! and two of them must not become two accounts. Says nothing about whether the mailbox exists.

use std::fmt;

use crate::limits::{EMAIL_BYTES_MAX, EMAIL_BYTES_MIN, EMAIL_LABEL_BYTES_MAX, EMAIL_LOCAL_BYTES_MAX};

/// A valid address in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EmailAddress(String);

/// Why a text is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmailError {
    #[error("an e-mail address has {EMAIL_BYTES_MIN} to {EMAIL_BYTES_MAX} characters")]
    Length,
    #[error("an e-mail address contains exactly one @")]
    NotOneAt,
    #[error("the part of the e-mail address before the @ is not valid")]
    Local,
    #[error("the part of the e-mail address after the @ is not a valid domain name")]
    Domain,
}

impl EmailAddress {
    /// Trims a text, lowers its case and checks it.
    pub fn parse(text: &str) -> Result<Self, EmailError> {
        let text = text.trim();
        if !(EMAIL_BYTES_MIN..=EMAIL_BYTES_MAX).contains(&text.len()) {
            return Err(EmailError::Length);
        }
        let text = text.to_ascii_lowercase();
        let (local, domain) = text.split_once('@').ok_or(EmailError::NotOneAt)?;
        if domain.contains('@') {
            return Err(EmailError::NotOneAt);
        }
        if !is_local(local) {
            return Err(EmailError::Local);
        }
        if !is_domain(domain) {
            return Err(EmailError::Domain);
        }
        Ok(Self(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part before the @.
    pub fn local_part(&self) -> &str {
        self.0.split_once('@').map_or("", |(local, _)| local)
    }

    /// Returns the part after the @.
    pub fn domain(&self) -> &str {
        self.0.split_once('@').map_or("", |(_, domain)| domain)
    }
}

impl fmt::Display for EmailAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The unquoted form of RFC 5321: words of these characters, separated by single dots.
fn is_local(local: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte);
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(allowed);
    local.len() <= EMAIL_LOCAL_BYTES_MAX && local.split('.').all(is_word)
}

/// Labels as in host names. An IP address is no domain, so the last label is not a number.
fn is_domain(domain: &str) -> bool {
    let is_label = |label: &str| {
        let inner = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        !label.is_empty()
            && label.len() <= EMAIL_LABEL_BYTES_MAX
            && inner
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = domain.rsplit('.').next().unwrap_or_default();
    domain.split('.').all(is_label) && !last.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: Result<&str, EmailError>) {
        let parsed = EmailAddress::parse(text);
        assert_eq!(parsed.as_ref().map(EmailAddress::as_str).map_err(|error| *error), expected, "{text:?}");
    }

    #[test]
    fn addresses_are_trimmed_and_lowered() {
        check("  Ada.Lovelace+x@Example.ORG\n", Ok("ada.lovelace+x@example.org"));
        check("a@b", Ok("a@b"));
        check("dev@local.pandastack", Ok("dev@local.pandastack"));
        check("o'neil@xn--bcher-kva.example", Ok("o'neil@xn--bcher-kva.example"));
        let parsed = EmailAddress::parse("Ada@Example.org").unwrap();
        assert_eq!(
            (parsed.local_part(), parsed.domain(), parsed.to_string().as_str()),
            ("ada", "example.org", "ada@example.org")
        );
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "@", "ab", "a@", " a@ "] {
            check(text, Err(EmailError::Length));
        }
        for text in ["abc", "a@b@c", "a@@b"] {
            check(text, Err(EmailError::NotOneAt));
        }
        let long = format!("{}@b", "a".repeat(65));
        for text in ["@bc", ".a@b", "a.@b", "a..b@c", "a b@c", "a\tb@c", "\"a\"@b", "a<b@c", "é@b.c", "a\0@b", &long] {
            check(text, Err(EmailError::Local));
        }
        let label = format!("a@{}", "b".repeat(64));
        for text in
            ["a@.b", "a@b.", "a@b..c", "a@-b", "a@b-", "a@b c", "a@127.0.0.1", "a@[::1]", "a@bü.de", "a@b_c.d", &label]
        {
            check(text, Err(EmailError::Domain));
        }
        check(&format!("a@{}", "b.".repeat(126) + "c"), Err(EmailError::Length));
        check(&format!("a@{}", "b.".repeat(125) + "cd"), Ok(&format!("a@{}", "b.".repeat(125) + "cd")));
    }

    proptest! {
        #[test]
        fn parsing_is_repeatable(text in "\\PC{0,20}@?[a-zA-Z0-9.@ -]{0,20}") {
            if let Ok(parsed) = EmailAddress::parse(&text) {
                prop_assert_eq!(EmailAddress::parse(parsed.as_str()), Ok(parsed.clone()));
                prop_assert_eq!(format!("{}@{}", parsed.local_part(), parsed.domain()), parsed.as_str());
                prop_assert!(parsed.as_str().is_ascii());
                // An address is one word in a header of a mail, and in a log.
                prop_assert!(!parsed.as_str().contains(|letter: char| letter.is_whitespace() || letter.is_control()));
            }
        }

        #[test]
        fn case_and_space_around_make_no_difference(
            local in "[a-z0-9+_-]{1,20}",
            domain in "[a-z]{1,10}(\\.[a-z]{2,5}){0,3}",
        ) {
            let text = format!("{local}@{domain}");
            let expected = EmailAddress::parse(&text);
            prop_assert!(expected.is_ok());
            prop_assert_eq!(EmailAddress::parse(&format!(" {} ", text.to_uppercase())), expected);
        }
    }
}
