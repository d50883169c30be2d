//! Copies of an SQLite database: one is taken while the database is in use, and put back while it
//! is not.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use sqlx::{ConnectOptions, Connection, Row as _, sqlite::SqliteConnectOptions};

use crate::{Database, DatabaseError, Schema, pool::DriverPool, query};

/// Why a copy was not taken or not put back.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("this database is a PostgreSQL server; back it up with pg_dump")]
    Server,
    #[error("{} exists already; name a new file", .0.display())]
    Exists(PathBuf),
    #[error("{attempted} {}", path.display())]
    File {
        attempted: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("{} is not a whole backup: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("the backup has version {found}, but this program supports only up to {known}; use a newer program")]
    TooNew { found: i64, known: i64 },
    #[error("write the backup")]
    Write(#[source] DatabaseError),
}

impl Database {
    /// Writes a consistent copy to a new file. Readers and writers go on meanwhile.
    pub async fn snapshot_to(&self, path: &Path) -> Result<(), SnapshotError> {
        let DriverPool::Sqlite(_) = self.pool else { return Err(SnapshotError::Server) };
        let failed = |attempted| {
            move |cause: io::Error| match cause.kind() {
                io::ErrorKind::AlreadyExists => SnapshotError::Exists(path.to_owned()),
                _ => SnapshotError::File { attempted, path: path.to_owned(), cause },
            }
        };
        // The copy contains the same secrets. SQLite takes an empty file as it is.
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed("create"))?;
        let text = path.to_string_lossy().into_owned();
        if let Err(cause) = query("VACUUM INTO ?").bind(text).execute(self).await {
            // Half a backup is worse than none.
            let _ = fs::remove_file(path);
            return Err(SnapshotError::Write(cause));
        }
        flush(path).map_err(failed("flush"))
    }
}

/// Puts a backup in the place of a database that no program has open. The old database is kept
/// beside it until the new one is in place.
pub async fn put_back(from: &Path, to: &Path, schema: Schema) -> Result<(), SnapshotError> {
    check(from, schema).await?;
    let failed = |attempted, path: &Path| {
        let path = path.to_owned();
        move |cause| SnapshotError::File { attempted, path, cause }
    };
    let staged = with_suffix(to, ".restore");
    let mut source = File::open(from).map_err(failed("open", from))?;
    let mut target = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&staged)
        .map_err(failed("create", &staged))?;
    io::copy(&mut source, &mut target).map_err(failed("write", &staged))?;
    target.sync_all().map_err(failed("flush", &staged))?;
    // What a crashed program left in the old log must not be applied to the new database.
    for suffix in ["-wal", "-shm"] {
        let log = with_suffix(to, suffix);
        match fs::remove_file(&log) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(failed("remove", &log)(cause)),
            _ => {}
        }
    }
    fs::rename(&staged, to).map_err(failed("replace", to))?;
    flush(to).map_err(failed("flush", to))
}

/// Checks that a backup is whole and not too new.
async fn check(path: &Path, schema: Schema) -> Result<(), SnapshotError> {
    let damaged = |reason: String| SnapshotError::Damaged { path: path.to_owned(), reason };
    // Read-only: a backup is never changed.
    let options = SqliteConnectOptions::new().filename(path).read_only(true).immutable(true);
    let mut connection = options.connect().await.map_err(|cause| damaged(cause.to_string()))?;
    let row = sqlx::query("PRAGMA quick_check").fetch_one(&mut connection).await;
    let verdict: String = row.and_then(|row| row.try_get(0)).map_err(|cause| damaged(cause.to_string()))?;
    if verdict != "ok" {
        return Err(damaged(verdict));
    }
    let found: Result<i64, _> =
        sqlx::query_scalar("SELECT COALESCE(MAX(version), 0) FROM schema_version").fetch_one(&mut connection).await;
    let found = found.map_err(|_| damaged("it has no version table".to_owned()))?;
    // A failed close loses nothing: the connection only reads.
    let _ = connection.close().await;
    if found > schema.version() {
        return Err(SnapshotError::TooNew { found, known: schema.version() });
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes a file and its name survive a power failure.
fn flush(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()?;
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}
