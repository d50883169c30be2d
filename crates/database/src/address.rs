//! Where a database is: a file, or a server.

use std::{fmt, path::PathBuf, str::FromStr};

use url::Url;

/// Longest URL that is accepted.
const URL_BYTES_MAX: usize = 4096;

/// Where a database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseAddress {
    /// SQLite in this file.
    File(PathBuf),
    /// PostgreSQL behind this URL.
    Server(PostgresUrl),
}

/// The URL of a PostgreSQL database. Its password is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(Url);

/// Why a text is not the address of a database.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostgresUrlError {
    #[error("the database URL is longer than {URL_BYTES_MAX} bytes")]
    TooLong,
    #[error("the database URL is not a URL ({0}); write postgres://user:password@host:5432/name")]
    NotUrl(url::ParseError),
    #[error("databases of the kind {0} are not supported; write postgres://user:password@host:5432/name")]
    Kind(String),
    #[error("the database URL names no database; write postgres://user:password@host:5432/name")]
    NoName,
}

impl PostgresUrl {
    /// Returns the whole URL, with the password.
    pub fn expose(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the same server with another database.
    #[must_use]
    pub fn with_name(&self, name: &str) -> Self {
        let mut url = self.0.clone();
        url.set_path(name);
        Self(url)
    }
}

impl FromStr for PostgresUrl {
    type Err = PostgresUrlError;

    fn from_str(text: &str) -> Result<Self, PostgresUrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(PostgresUrlError::TooLong);
        }
        let url = Url::parse(text).map_err(PostgresUrlError::NotUrl)?;
        if !matches!(url.scheme(), "postgres" | "postgresql") {
            return Err(PostgresUrlError::Kind(url.scheme().to_owned()));
        }
        if url.path().trim_matches('/').is_empty() {
            return Err(PostgresUrlError::NoName);
        }
        Ok(Self(url))
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.0.host_str().unwrap_or("local socket");
        write!(f, "PostgreSQL at {host}{}", self.0.port().map(|port| format!(":{port}")).unwrap_or_default())?;
        write!(f, ", database {}", self.0.path().trim_matches('/'))
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresUrl({self})")
    }
}

impl fmt::Display for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "SQLite in {}", path.display()),
            Self::Server(url) => url.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_printed() {
        let url: PostgresUrl = "postgres://app:hunter2@db.internal:5433/panda?sslmode=require".parse().unwrap();
        let address = DatabaseAddress::Server(url.clone());
        for text in [format!("{url}"), format!("{url:?}"), format!("{address}"), format!("{address:?}")] {
            assert!(!text.contains("hunter2"), "{text}");
            assert!(text.contains("db.internal:5433, database panda"), "{text}");
        }
        assert!(url.with_name("other").expose().ends_with("@db.internal:5433/other?sslmode=require"));
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_form_to_write() {
        let refused = |text: &str| text.parse::<PostgresUrl>().unwrap_err().to_string();
        assert!(refused("mysql://a/b").contains("mysql are not supported; write postgres://"));
        assert!(refused("postgres://a").contains("names no database"));
        assert!(refused("control.db").contains("is not a URL"));
        assert!(refused(&format!("postgres://a/{}", "b".repeat(5000))).contains("longer than"));
    }
}
