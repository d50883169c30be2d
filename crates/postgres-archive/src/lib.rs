//! The archive of managed databases on this server: write-ahead log and base backups come in over
//! HTTP from the databases' machines, are safe on the disk before the answer, and go to a store
//! from there. Knows neither machines nor tenants: a directory is handed in.

mod archive;
mod base;
mod connection;
mod health;
pub mod limits;
mod name;
mod packing;
mod prune;
mod relay;
mod s3;
mod shelf;
mod spool;
mod store;
mod timeline;
mod upload;
mod verify;
mod wal;

pub use archive::{
    Archive, ArchiveDirectory, ArchiveFigures, ArchiveOpenError, ArchiveRead, ArchiveSettings, ArchiveState,
    BaseBackup, DirectoryError, WaitError, Who,
};
pub use base::{BaseCopy, BaseError};
pub use connection::serve_without_archive;
pub use health::{ArchiveHealth, HealthChange};
pub use name::{BaseName, NameError, WalName};
pub use prune::Pruned;
pub use s3::S3Settings;
pub use store::{ArchiveStore, ArchiveStoreError};
pub use timeline::{RestorePlan, RestoreRefusal, Retention};
pub use verify::VerifyError;
pub use wal::ReadError;

#[cfg(test)]
mod tests;
