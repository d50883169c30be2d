//! Builds templates: accepts a request, runs its steps in machines of the host, seals the result.
//! The row is written first and records the outcome. Everything that a build holds on the host is
//! recorded before it is made, so that a restart can remove it.
//!
//! ```text
//! queued -> running -> baking -> done
//!    any of the first three   -> failed
//! ```

mod accept;
mod drive;
mod failure;
mod log;
mod machine;
mod place;
mod pull;
mod rootfs;
mod source;
mod stages;
mod start;
mod take;
mod upload;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use pandastack_door::{Place, PlaceKind, Places};
use pandastack_kit::Scope;
use pandastack_model::{BuildId, ExecDefaults, Fault, Shares};
use pandastack_wire_fleet::WorkspaceId;

pub use log::{BuildLogReader, BuildLogs, LogRead};
pub use pandastack_dockerfile::TemplateSettings;
use pandastack_dockerfile::{self as dockerfile, context, ignore, plan};
use pandastack_image as image;
pub use pandastack_image::{ImageClient, ImageSettings};
pub use upload::{BuildUpload, receive};

use crate::limits::{BUILDS_AT_ONCE_MAX, UPLOADS_AT_ONCE_MAX};
use upload::BuildSpool;

const RUNNING: PlaceKind = PlaceKind { name: "running builds", quota: "quota.builds", full: "build.busy" };
const UPLOADS: PlaceKind = PlaceKind { name: "uploads in progress", quota: "quota.uploads", full: "build.busy" };
/// The defaults that the host applies to every command in sandboxes of a template.
fn exec_defaults(settings: &TemplateSettings) -> ExecDefaults {
    ExecDefaults { env: settings.env.clone(), cwd: settings.workdir.clone(), user: settings.user.clone() }
}

/// State that all builds share.
pub struct Builds {
    folder: PathBuf,
    pub logs: BuildLogs,
    running: Places,
    uploads: Places,
    /// Bytes that the uploads of each workspace occupy.
    spooled: Arc<Mutex<Shares<WorkspaceId>>>,
}

impl Builds {
    /// Opens the folder of the builds. Deletes files that an earlier run left in the spool.
    pub fn open(folder: &Path, scope: Scope) -> io::Result<Self> {
        let spool = folder.join("spool");
        match std::fs::remove_dir_all(&spool) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => std::fs::create_dir_all(&spool)?,
        }
        use std::os::unix::fs::PermissionsExt;
        // Contexts hold users' secrets.
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
        Ok(Self::at(folder, scope))
    }

    /// Does not touch the folder. A server without a host builds nothing.
    pub fn at(folder: &Path, scope: Scope) -> Self {
        Self {
            folder: folder.to_owned(),
            logs: BuildLogs::new(folder.to_owned(), scope),
            running: Places::new(RUNNING, BUILDS_AT_ONCE_MAX),
            uploads: Places::new(UPLOADS, UPLOADS_AT_ONCE_MAX),
            spooled: Arc::default(),
        }
    }

    /// Makes a spool for an upload. Fails if all upload places are taken.
    pub fn spool(&self, workspace: &WorkspaceId) -> Result<(BuildSpool, Place), Fault> {
        let place = self.uploads.take(Some(workspace))?;
        Ok((self.pull_spool(workspace)?, place))
    }

    /// Makes an empty spool. Its bytes count against the workspace's share.
    fn pull_spool(&self, workspace: &WorkspaceId) -> Result<BuildSpool, Fault> {
        let folder = self.folder.join("spool").join(BuildId::random().to_string());
        BuildSpool::new(folder, workspace.clone(), self.spooled.clone()).map_err(Fault::bug)
    }
}
