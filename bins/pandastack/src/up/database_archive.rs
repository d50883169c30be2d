//! The archive of managed databases of `pandastack up`: where it is kept, and how the machines of
//! databases reach it.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use anyhow::{Context, Result};
use async_trait::async_trait;
use clap::Args;
use pandastack_control::Control;
use pandastack_kit::Scope;
use pandastack_model::{SandboxId, SandboxSpec};
use pandastack_postgres_archive::{Archive, ArchiveSettings, ArchiveStore, S3Settings, serve_without_archive};
use pandastack_wire_fleet::{GatewayService, GuestBytes};
use pandastack_wire_public::DatabaseSize;

/// Folders in the data folder: what waits for the store, and the store itself by default.
const SPOOL_FOLDER: &str = "database-spool";
const STORE_FOLDER: &str = "database-archive";
/// The word for no archive.
const OFF: &str = "off";
/// Start of the address of a bucket.
const BUCKET: &str = "s3://";

#[derive(Args)]
pub struct ArchiveArgs {
    /// Where backups of managed databases are kept: a folder, s3://BUCKET/PREFIX with the usual
    /// AWS_ variables, or `off`. The default is a folder in the data folder, which a lost disk
    /// takes with it
    #[arg(long, env = "PANDASTACK_DB_ARCHIVE", value_name = "WHERE")]
    db_archive: Option<String>,
}

impl ArchiveArgs {
    /// Opens the archive and hands it to control and to the machines of databases.
    pub fn start(&self, data_dir: &Path, control: Control, gateway: &ArchiveGateway, scope: &Scope) -> Result<Control> {
        let store = match self.db_archive.as_deref() {
            Some(OFF) => {
                let _ = gateway.kept.set(KeptLog::Nowhere);
                return Ok(control.with_database_archive(None));
            }
            Some(url) if url.starts_with(BUCKET) => {
                let settings = S3Settings::parse(url, std::env::vars()).context("read --db-archive")?;
                ArchiveStore::S3(settings)
            }
            Some(folder) => ArchiveStore::Folder(PathBuf::from(folder)),
            None => ArchiveStore::Folder(data_dir.join(STORE_FOLDER)),
        };
        let settings = ArchiveSettings::new(data_dir.join(SPOOL_FOLDER), store);
        let archive = Archive::open(settings, Arc::new(control.clone()), scope.clone())
            .context("open the archive of managed databases (--db-archive)")?;
        archive.run();
        // The only call: a second archive would not be served.
        let _ = gateway.kept.set(KeptLog::In(archive.clone()));
        Ok(control.with_database_archive(Some(archive)))
    }
}

/// Serves the archive to the machines of databases. They run before the archive is open; until then
/// their connections end at once, and they try again.
#[derive(Default)]
pub struct ArchiveGateway {
    kept: OnceLock<KeptLog>,
}

/// Where the log of databases goes.
enum KeptLog {
    In(Archive),
    /// Machines are told so, because a log that nobody takes would fill their volumes.
    Nowhere,
}

#[async_trait]
impl GatewayService for ArchiveGateway {
    fn serves(&self, spec: &SandboxSpec) -> bool {
        DatabaseSize::ALL.iter().any(|size| size.template() == spec.template.as_str())
    }

    async fn serve(&self, sandbox: SandboxId, stream: Box<dyn GuestBytes>) {
        match self.kept.get() {
            Some(KeptLog::In(archive)) => archive.serve(&sandbox.to_string(), stream).await,
            Some(KeptLog::Nowhere) => serve_without_archive(stream).await,
            None => {}
        }
    }
}
