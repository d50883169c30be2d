//! A bundle that is ready to run machines, with the root of its jails. Made once per bundle.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pandastack_model::Tier;
use pandastack_sys::mounts::MountNamespace;
use pandastack_vmm::MachineStartError;

use crate::{
    bundle::Bundle,
    jail::{self, Jail, failed},
};

/// A bundle with its prepared root.
pub struct Runtime {
    pub bundle: Bundle,
    /// `None` without a jail.
    pub root: Option<MountNamespace>,
}

/// All bundles of a folder. Caches the prepared ones.
pub struct Runtimes {
    folder: PathBuf,
    newest: Bundle,
    ready: Mutex<HashMap<String, Arc<Runtime>>>,
}

impl Runtimes {
    pub fn new(folder: &Path, newest: Bundle) -> Self {
        Self { folder: folder.to_owned(), newest, ready: Mutex::default() }
    }

    /// The bundle that new layers are made with.
    pub fn newest(&self) -> &Bundle {
        &self.newest
    }

    /// Finds a bundle of the folder.
    pub fn find(&self, digest: &str) -> Option<Bundle> {
        if digest == self.newest.digest() { Some(self.newest.clone()) } else { Bundle::open(&self.folder, digest) }
    }

    /// Returns a prepared runtime: the given one, or the newest. The first use of each blocks
    /// briefly.
    pub fn ready(&self, digest: Option<&str>, tier: Tier, jail: Jail) -> Result<Arc<Runtime>, MachineStartError> {
        let digest = digest.unwrap_or(self.newest.digest());
        // Locked while a runtime is made, so that two machines starting at once make it only once.
        let mut ready = self.lock();
        if let Some(runtime) = ready.get(digest) {
            return Ok(runtime.clone());
        }
        let missing = || MachineStartError::Profile {
            needed: format!("runtime {digest}"),
            present: format!("runtime {}", self.newest.digest()),
        };
        let bundle = self.find(digest).ok_or_else(missing)?;
        let root = (jail == Jail::Full).then(|| jail::root(&bundle, tier)).transpose();
        let root = root.map_err(failed("create the root folder of the runtime"))?;
        let runtime = Arc::new(Runtime { bundle, root });
        ready.insert(digest.to_owned(), runtime.clone());
        Ok(runtime)
    }

    /// Removes bundles that are neither needed nor the newest, and returns their digests.
    pub fn collect(&self, needed: &HashSet<String>) -> Vec<String> {
        let keep = |digest: &str| digest == self.newest.digest() || needed.contains(digest);
        let mut ready = self.lock();
        ready.retain(|digest, _| keep(digest));
        Bundle::collect(&self.folder, keep)
    }

    /// Drops the prepared runtimes, so that they are made again.
    pub fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Runtime>>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
