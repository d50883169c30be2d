//! The data folder, and the parts of it that every local command opens.
//!
//! ```text
//! <data>/lock  control.db  ledger.db  runtime/<digest>/  volume[.xfs]/{layers,templates,disks,staging}
//! /run/pandastack/<instance>/mch_.../   sockets and logs of running machines
//! ```

use std::{
    fs::File,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};
use pandastack_host::close_paths;
use pandastack_layers::{DataVolume, LayerStore};
use pandastack_sys::private;

/// Share of the free disk space that our own volume image may grow to.
const IMAGE_SHARE: (u64, u64) = (9, 10);

/// How long a start waits for the lock, which a child of a killed server may still hold.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);

/// Interval between two attempts to take the lock.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// Holds one folder for each data folder on this computer, with its running machines.
pub const RUN_FOLDER: &str = "/run/pandastack";

/// Files that show that a server or a bake has used the folder.
const MARKS: [&str; 5] = ["volume", "volume.users", "lock", "control.db", "ledger.db"];

/// An opened data folder.
#[derive(Clone)]
pub struct OpenedDataFolder {
    pub data_dir: PathBuf,
    /// Identifies this data folder among others on the same computer.
    pub instance: String,
    pub volume: Arc<DataVolume>,
    pub layers: LayerStore,
}

/// Text that `up` and `doctor` show for a tier that has a warning.
pub fn warn_of_tier(warning: &str) -> String {
    format!("{warning}. `pandastack up --require-isolation kvm` refuses to start without it")
}

/// The data folder if none is given.
pub const DEFAULT_DATA_DIR: &str = "/var/lib/pandastack";

/// Folder for files that can be downloaded or built again.
pub fn cache_dir() -> PathBuf {
    if let Some(folder) = std::env::var_os("PANDASTACK_CACHE_DIR") {
        return folder.into();
    }
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    home.join(".cache/pandastack")
}

/// Folder of running machines of the data folder with this instance name.
pub fn run_root_of(instance: &str) -> PathBuf {
    // FNV-1a: short and stable. Nothing depends on it being hard to guess.
    let hash = instance
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    Path::new(RUN_FOLDER).join(format!("{:08x}", hash as u32))
}

/// Refuses a folder that other users can enter and that holds foreign files, such as /tmp or
/// /var/lib. Closing it would lock those users out.
fn refuse_shared(data_dir: &Path) -> Result<()> {
    let is_ours = MARKS.iter().any(|mark| data_dir.join(mark).exists());
    let is_empty = || std::fs::read_dir(data_dir).map_or(true, |mut entries| entries.next().is_none());
    let Some(mode) = private::open_mode(data_dir) else { return Ok(()) };
    if is_ours || is_empty() {
        return Ok(());
    }
    bail!(
        "the data folder {0} contains other files and is accessible to other users (mode {mode:04o}); choose an empty \
         folder with --data-dir, or restrict it with `chmod 700 {0}` if only you use it",
        data_dir.display()
    )
}

/// Creates the folder of network namespaces with the mode that `ip` uses. `ip` itself would
/// inherit our umask and hide the folder from other users.
fn keep_namespaces_visible() -> std::io::Result<()> {
    let folder = Path::new("/run/netns");
    if folder.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(folder)?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))
}

impl OpenedDataFolder {
    /// Opens the folder and creates missing parts.
    pub fn open(data_dir: &Path) -> Result<Self> {
        if !nix::unistd::geteuid().is_root() {
            bail!("machines, networks and mounts need root; run this with sudo");
        }
        refuse_shared(data_dir)?;
        private::make_folder(data_dir).with_context(|| format!("create the data folder {}", data_dir.display()))?;
        let data_dir = data_dir.canonicalize().context("find the data folder")?;
        private::make_folder(Path::new(RUN_FOLDER)).with_context(|| format!("create {RUN_FOLDER}"))?;
        keep_namespaces_visible().context("create the folder of network namespaces")?;
        let free =
            nix::sys::statvfs::statvfs(&data_dir).map_or(0, |stat| stat.blocks_available() * stat.fragment_size());
        let volume =
            DataVolume::open(&data_dir, free / IMAGE_SHARE.1 * IMAGE_SHARE.0).context("open the data volume")?;
        let layers = LayerStore::open(volume.root()).context("open the layers")?;
        let place = Self { instance: data_dir.display().to_string(), data_dir, volume: Arc::new(volume), layers };
        // An older version or a person may have left paths open to other users.
        close_paths(&place.data_dir, &place.run_root()).context("close the data folder to other users")?;
        Ok(place)
    }

    /// Makes this process the only server of the folder, until the returned file is dropped.
    ///
    /// A server that was killed while it started a machine leaves a child that holds the lock until
    /// the child has become that machine or has failed. Waiting for the lock is required: only then
    /// does recovery find the machine in the process table.
    pub fn lock(&self) -> Result<Flock<File>> {
        let path = self.data_dir.join("lock");
        let mut file = File::create(&path).with_context(|| format!("open {}", path.display()))?;
        let deadline = Instant::now() + LOCK_PATIENCE;
        loop {
            file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(lock),
                Err((file, _)) if Instant::now() < deadline => file,
                Err(_) => bail!(
                    "another pandastack server uses {}; stop it or choose another --data-dir",
                    self.data_dir.display()
                ),
            };
            std::thread::sleep(LOCK_POLL);
        }
    }

    /// Folder of running machines.
    pub fn run_root(&self) -> PathBuf {
        run_root_of(&self.instance)
    }

    /// Folder of runtime bundles.
    pub fn bundles(&self) -> PathBuf {
        self.data_dir.join("runtime")
    }
}
