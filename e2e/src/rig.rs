//! A driver of real machines without a host: makes specifications of machines from the baked
//! template `mini`, and checks at the end that nothing is left.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_host::net::{self, NetPool, NetSettings, NetSlot};
use pandastack_kit::Scope;
use pandastack_layers::{Layer, LayerStore};
use pandastack_model::{MachineId, SandboxId};
use pandastack_testbed::{DataFolder, machine_driver, machine_tier, processes};
use pandastack_vmm::{MachineLimits, MachineSpec};
use pandastack_vmm_qemu::QemuDriver;

/// A driver and its environment. A drop removes everything, machines included.
pub struct Rig {
    pub driver: QemuDriver,
    pub layers: LayerStore,
    pub layer: Layer,
    pub run_root: PathBuf,
    pool: Arc<NetPool>,
    slots: Mutex<Vec<NetSlot>>,
    instance: String,
    /// Last field: dropped after everything that uses it.
    folder: DataFolder,
}

impl Rig {
    /// Starts with the runtime bundles of the templates.
    pub async fn start() -> Self {
        Self::start_on(machine_driver().expect("QEMU is installed, and the tier asked for works")).await
    }

    /// Starts with a folder of runtime bundles.
    pub async fn start_with(bundles: &Path) -> Self {
        let tier = machine_tier().expect("the tier asked for works");
        Self::start_on(QemuDriver::new(tier, bundles, Scope::new()).expect("QEMU is installed")).await
    }

    async fn start_on(driver: QemuDriver) -> Self {
        let folder = DataFolder::with_templates().expect("`make test-build` bakes the template");
        let layers = LayerStore::open(&folder.path().join("volume")).expect("the layers open");
        let name = "mini".parse().expect("a name");
        let layer = layers.template(&name).and_then(|id| layers.open_layer(id)).expect("mini is whole");
        let instance = folder.path().display().to_string();
        let settings = NetSettings { ready: 1, ..NetSettings::of(instance.clone()) };
        let pool = NetPool::start(settings, &Scope::new()).await.expect("a network");
        let run_root = PathBuf::from(format!("/run/pandastack/c-{}", &SandboxId::random().to_string()[..12]));
        Self { driver, pool, slots: Mutex::default(), instance, run_root, layers, layer, folder }
    }

    /// Makes the folder, disk and network of one machine.
    pub async fn place(&self) -> MachineSpec {
        let id = MachineId::random();
        let run_dir = self.run_root.join(id.to_string());
        std::fs::create_dir_all(&run_dir).expect("make the machine's folder");
        let disk = self.layers.overlay(&self.layer, &id.to_string()).expect("clone the disk");
        let slot = self.pool.take().await.expect("a network slot");
        let network = slot.port();
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
        let manifest = &self.layer.manifest;
        let limits = MachineLimits::of(manifest.memory, manifest.cpus);
        let (memory, cpus, runtime) = (manifest.memory, manifest.cpus, None);
        MachineSpec { id, memory, cpus, disk, run_dir, network, runtime, limits }
    }

    /// A folder for the test.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Counts all machines that are alive.
    pub fn live(&self) -> usize {
        processes(&self.run_root).len()
    }

    /// Releases everything.
    pub async fn close(self) {
        self.pool.close().await.expect("the network closes");
        let left = net::leftovers(&self.instance).await.expect("leftovers can be looked for");
        assert!(left.namespaces.is_empty(), "{left:?}");
    }
}

impl Drop for Rig {
    /// Cleans up after a failed test, whose machines and namespaces must not disturb the next one.
    fn drop(&mut self) {
        for pid in processes(&self.run_root).iter().filter_map(|pid| pid.parse().ok()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let _ = std::fs::remove_dir_all(&self.run_root);
        let instance = self.instance.clone();
        let sweep = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(net::sweep(&instance, &[])))
        });
        let _ = sweep.join();
    }
}
