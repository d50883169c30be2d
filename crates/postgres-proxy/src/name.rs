//! The name of a database, and how a TLS server name carries it: one label before a fixed suffix.

use std::{fmt, str::FromStr};

use uuid::Uuid;

/// Length of a UUID with its hyphens.
const UUID_CHARS: usize = 36;

/// A database's id: a UUID, printed in lower case with hyphens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DatabaseName(Uuid);

/// Text that is no database id.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a database id is a UUID, such as 0b6f3c1e-9d0a-4a57-8a3c-2f1d7e5b9c44")]
pub struct DatabaseNameError;

impl FromStr for DatabaseName {
    type Err = DatabaseNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The parser also takes forms without hyphens and with braces.
        if text.len() != UUID_CHARS {
            return Err(DatabaseNameError);
        }
        Uuid::try_parse(text).map(Self).map_err(|_| DatabaseNameError)
    }
}

impl fmt::Display for DatabaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

/// What all host names of databases end with, such as `.db.example.com`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSuffix(String);

/// A suffix that no host name can have.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no suffix of host names; give a domain such as .db.example.com")]
pub struct HostSuffixError(String);

impl FromStr for HostSuffix {
    type Err = HostSuffixError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let domain = text.strip_prefix('.').unwrap_or(text).to_ascii_lowercase();
        let is_label = |label: &str| {
            !label.is_empty()
                && label.len() < 64
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        match domain.split('.').all(is_label) && domain.len() + UUID_CHARS < 254 {
            true => Ok(Self(format!(".{domain}"))),
            false => Err(HostSuffixError(text.chars().take(300).collect())),
        }
    }
}

impl fmt::Display for HostSuffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HostSuffix {
    /// Reads the database from a TLS server name.
    pub fn database(&self, host: &str) -> Result<DatabaseName, DatabaseNameError> {
        let at = host.len().checked_sub(self.0.len()).filter(|at| host.is_char_boundary(*at));
        let (label, suffix) = host.split_at(at.ok_or(DatabaseNameError)?);
        match suffix.eq_ignore_ascii_case(&self.0) {
            true => label.parse(),
            false => Err(DatabaseNameError),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "0b6f3c1e-9d0a-4a57-8a3c-2f1d7e5b9c44";

    #[test]
    fn one_label_before_the_suffix_names_a_database() {
        let suffix: HostSuffix = ".db.Example.com".parse().unwrap();
        assert_eq!(suffix, "db.example.com".parse().unwrap());
        let upper = ID.to_uppercase();
        for (host, expected) in [
            (format!("{ID}.db.example.com"), Some(ID)),
            (format!("{upper}.DB.example.COM"), Some(ID)),
            (format!("a.{ID}.db.example.com"), None),
            (format!("{ID}.example.com"), None),
            (format!("{}.db.example.com", ID.replace('-', "")), None),
            (format!("{{{ID}}}.db.example.com"), None),
            (".db.example.com".to_owned(), None),
            (ID.to_owned(), None),
        ] {
            let found = suffix.database(&host).ok().map(|name| name.to_string());
            assert_eq!(found.as_deref(), expected, "{host}");
        }
    }

    #[test]
    fn a_suffix_is_a_domain() {
        for text in ["", ".", "..db", "a..b", "a b", "*.db", &"a".repeat(64), &"a.".repeat(150)] {
            assert!(text.parse::<HostSuffix>().is_err(), "{text}");
        }
        assert_eq!("localhost".parse::<HostSuffix>().unwrap().to_string(), ".localhost");
    }

    proptest! {
        #[test]
        fn any_server_name_is_read_without_panic(host in ".{0,80}") {
            let _ = ".db.localhost".parse::<HostSuffix>().unwrap().database(&host);
        }
    }
}
