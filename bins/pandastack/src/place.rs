//! The data folder and what every local command opens of it.
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
use pandastack_layers::{LayerStore, Volume};
use pandastack_sys::private;

/// A data volume of our own may grow to this share of what is free.
const IMAGE_SHARE: (u64, u64) = (9, 10);

/// How long a start waits for what a killed server has left behind.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);

/// Between two looks.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// Holds a folder for each data folder on this computer, with its running machines.
pub const RUN_FOLDER: &str = "/run/pandastack";

/// What a server or a bake leaves in its data folder.
const MARKS: [&str; 5] = ["volume", "volume.users", "lock", "control.db", "ledger.db"];

/// An opened data folder.
pub struct Place {
    pub data_dir: PathBuf,
    /// Tells this data folder from others on the same machine.
    pub instance: String,
    pub volume: Arc<Volume>,
    pub layers: LayerStore,
}

/// What is said at start and by `doctor` of a tier that has a warning.
pub fn warn_of_tier(warning: &str) -> String {
    format!("{warning}. `pandastack up --require-isolation kvm` refuses to start without it")
}

/// Where data goes if nobody says otherwise.
pub const DEFAULT_DATA_DIR: &str = "/var/lib/pandastack";

/// Where things that can be made again are kept.
pub fn cache_dir() -> PathBuf {
    if let Some(folder) = std::env::var_os("PANDASTACK_CACHE_DIR") {
        return folder.into();
    }
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    home.join(".cache/pandastack")
}

/// Folder of running machines of the data folder with this name.
pub fn run_root_of(instance: &str) -> PathBuf {
    // FNV-1a: short, stable, and nothing depends on it being hard to guess.
    let hash = instance
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    Path::new(RUN_FOLDER).join(format!("{:08x}", hash as u32))
}

/// Refuses a folder that others use and that no server has written to, such as /tmp or /var/lib:
/// closing it would lock them out.
fn refuse_shared(data_dir: &Path) -> Result<()> {
    let is_ours = MARKS.iter().any(|mark| data_dir.join(mark).exists());
    let is_empty = || std::fs::read_dir(data_dir).map_or(true, |mut entries| entries.next().is_none());
    let Some(mode) = private::open_mode(data_dir) else { return Ok(()) };
    if is_ours || is_empty() {
        return Ok(());
    }
    bail!(
        "the data folder {0} holds files of others and other users may enter it (mode {mode:04o}); choose a folder of its own with \
         --data-dir, or close it with `chmod 700 {0}` if it is yours alone",
        data_dir.display()
    )
}

/// Makes the folder of network namespaces as `ip` would, if there is none. With our umask `ip`
/// would hide it from other users.
fn keep_namespaces_visible() -> std::io::Result<()> {
    let folder = Path::new("/run/netns");
    if folder.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(folder)?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))
}

impl Place {
    /// Opens the folder, making what is missing.
    pub fn open(data_dir: &Path) -> Result<Self> {
        if !nix::unistd::geteuid().is_root() {
            bail!("machines, networks and mounts need root; run this with sudo");
        }
        refuse_shared(data_dir)?;
        private::make_folder(data_dir).with_context(|| format!("make the data folder {}", data_dir.display()))?;
        let data_dir = data_dir.canonicalize().context("find the data folder")?;
        private::make_folder(Path::new(RUN_FOLDER)).with_context(|| format!("make {RUN_FOLDER}"))?;
        keep_namespaces_visible().context("make the folder of network namespaces")?;
        let free =
            nix::sys::statvfs::statvfs(&data_dir).map_or(0, |stat| stat.blocks_available() * stat.fragment_size());
        let volume = Volume::open(&data_dir, free / IMAGE_SHARE.1 * IMAGE_SHARE.0).context("open the data volume")?;
        let layers = LayerStore::open(volume.root()).context("open the layers")?;
        let place = Self { instance: data_dir.display().to_string(), data_dir, volume: Arc::new(volume), layers };
        // An older version may have left them open, or a person.
        close_paths(&place.data_dir, &place.run_root()).context("close the data folder to other users")?;
        Ok(place)
    }

    /// Makes this process the only server of the folder. Held as long as the file is.
    ///
    /// A server that was killed while it started a machine leaves a child behind that holds the
    /// lock until it has become that machine or given up. Waiting for it is more than patience:
    /// recovery then finds the machine in the process table.
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
