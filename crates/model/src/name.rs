//! Names that users choose, parsed once at the door.

use std::{fmt, str::FromStr};

/// A template's name: 1..=64 characters of letters, digits, `.`, `_`, `-`, and not only dots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateName(String);

/// Text that cannot name a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad template name {0:?}: use 1 to 64 letters, digits, '.', '_' or '-'")]
pub struct BadTemplateName(String);

impl TemplateName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TemplateName {
    type Err = BadTemplateName;

    fn from_str(text: &str) -> Result<Self, BadTemplateName> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let fine = (1..=64).contains(&text.len()) && text.chars().all(allowed) && !text.chars().all(|c| c == '.');
        if fine { Ok(Self(text.to_owned())) } else { Err(BadTemplateName(text.chars().take(80).collect())) }
    }
}

impl fmt::Display for TemplateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["mini", "ubuntu-24.04", "a", "A_b.c-9"] {
            assert_eq!(good.parse::<TemplateName>().unwrap().as_str(), good);
        }
        for bad in ["", "..", ".", "a/b", "a b", "é", &"x".repeat(65)] {
            assert!(bad.parse::<TemplateName>().is_err(), "{bad}");
        }
    }
}
