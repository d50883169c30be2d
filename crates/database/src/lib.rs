//! One SQL database behind two drivers: SQLite in a file, or PostgreSQL behind a URL. The same
//! statements run on both. A statement is written with `?` for each value; the driver for
//! PostgreSQL numbers them. Why not sqlx's own common driver: `docs/decisions/0029-one-store.md`.

mod address;
mod copy;
mod error;
mod lock;
mod migrate;
mod pool;
mod query;
mod row;
#[cfg(any(test, feature = "server-for-tests"))]
pub mod server;
mod snapshot;
mod sql;
#[cfg(test)]
mod tests;
mod transaction;
mod value;

pub use address::{DatabaseAddress, PostgresUrl, PostgresUrlError};
pub use copy::{CopyError, CopyReport};
pub use error::DatabaseError;
pub use lock::WriteLock;
pub use migrate::{MigrateError, Schema};
pub use pool::{Database, PoolSettings};
pub use query::{Query, QueryAs, Target, query, query_as, query_built, query_scalar};
pub use row::{Column, ColumnName, DatabaseRow, FromColumns};
pub use snapshot::{SnapshotError, put_back};
pub use transaction::Transaction;
pub use value::Value;
