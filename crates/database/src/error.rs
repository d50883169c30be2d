//! Why a statement failed, in the words of neither driver.

/// SQLSTATE classes of PostgreSQL for a connection that is gone: connection exceptions, and a
/// server that shuts down or starts.
const GONE: [&str; 5] = ["08", "57P01", "57P02", "57P03", "57P05"];

/// PostgreSQL's codes for transactions that another one stood in the way of.
const CONFLICTS: [&str; 3] = ["40001", "40P01", "55P03"];

/// SQLite's primary codes: busy, locked.
const BUSY: [&str; 2] = ["5", "6"];

/// The codes for a full disk: of SQLite, and of PostgreSQL.
const FULL: [&str; 2] = ["13", "53100"];

/// Why a statement failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct DatabaseError(#[from] sqlx::Error);

impl DatabaseError {
    /// Returns whether the database's disk is full.
    pub fn is_full(&self) -> bool {
        self.code().is_some_and(|code| FULL.contains(&code.as_str()))
    }

    /// Returns whether a row with this key exists already.
    pub fn is_duplicate(&self) -> bool {
        matches!(&self.0, sqlx::Error::Database(cause) if cause.is_unique_violation())
    }

    /// Returns whether the database cannot be reached now. Whether a commit that failed so has
    /// happened is not known.
    pub fn is_unavailable(&self) -> bool {
        match &self.0 {
            sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Tls(_) => true,
            _ => self.code().is_some_and(|code| GONE.iter().any(|gone| code.starts_with(gone))),
        }
    }

    /// Returns whether another transaction stood in the way, so that this one may be tried again.
    pub fn is_conflict(&self) -> bool {
        self.code().is_some_and(|code| CONFLICTS.contains(&code.as_str()) || BUSY.contains(&code.as_str()))
    }

    fn code(&self) -> Option<String> {
        match &self.0 {
            sqlx::Error::Database(cause) => cause.code().map(std::borrow::Cow::into_owned),
            _ => None,
        }
    }
}
