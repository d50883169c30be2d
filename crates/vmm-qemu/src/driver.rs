//! Starts machines' processes, for a boot or for a layer. `blank` turns them into machines.

use std::{
    collections::HashSet,
    ffi::CString,
    fs::File,
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use pandastack_kit::Scope;
use pandastack_model::Tier;
use pandastack_sys::{filter::OpenCalls, mounts::MountTree, netns::Netns};
use pandastack_vmm::{
    Blank, BootImage, Driver, LayerFiles, Machine, MachineProfile, MachineSpec, MachineStartError, Power,
};

use crate::{
    blank::{self, BlankProcess, QemuBlank},
    bundle::{Bundle, BundleError},
    command::{MACHINE_TYPE, MachineProperties, StartMode, arguments, kernel_parameters},
    jail::{INITRAMFS, Jail, KERNEL, MEM, USERS, failed, seen_from_inside, show},
    limits::START_DEADLINE,
    machine::{QemuMachine, power},
    process::{LimitTiming, QemuLaunch, QemuProcess, monitor_socket},
    qmp::Qmp,
    room::CpuSwitch,
    runtime::{Runtime, Runtimes},
};

/// CPU of every guest: the x86-64-v2 baseline with a random generator, so that a layer can move
/// between hosts. `arat` means that the CPU's timer never stops; without it the guest's kernel uses
/// 250 ticks a second permanently.
const CPU_PROFILE: &str = "Nehalem-v1,+rdrand,+rdseed,+rdtscp,+aes,+pclmulqdq,+arat,-vme";

/// Added if the guest uses the host's clock counter. With KVM it would tie a layer to one host's
/// frequency.
const EMULATED_CLOCK: &str = ",+invtsc";

/// The driver cannot be set up on this host.
#[derive(Debug, thiserror::Error)]
pub enum SetUpError {
    #[error(transparent)]
    Bundle(#[from] BundleError),
    #[error("/proc/cpuinfo does not report the clock frequency")]
    NoClock,
}

/// Makes QEMU machines of one tier: new ones with the newest runtime bundle, others with the bundle
/// that their layer names. Clones share the prepared runtimes.
#[derive(Clone)]
pub struct QemuDriver {
    runtimes: Arc<Runtimes>,
    shape: MachineProperties,
    jail: Jail,
    users: Range<u32>,
    memory_of_all: Option<u64>,
    scope: Scope,
}

impl QemuDriver {
    /// Prepares the runtime bundle in a folder and sets the machine's shape. Machines are jailed.
    pub fn new(tier: Tier, bundles: &Path, scope: Scope) -> Result<Self, SetUpError> {
        let runtimes = Arc::new(Runtimes::new(bundles, Bundle::ensure(tier, bundles)?));
        let (tsc_khz, cpu_profile) = match tier {
            Tier::Kvm => (None, CPU_PROFILE.to_owned()),
            Tier::Emulated | Tier::Fake => {
                (Some(host_khz().ok_or(SetUpError::NoClock)?), format!("{CPU_PROFILE}{EMULATED_CLOCK}"))
            }
        };
        let shape = MachineProperties { tier, cpu_profile, tsc_khz };
        Ok(Self { runtimes, shape, jail: Jail::Full, users: USERS, memory_of_all: None, scope })
    }

    /// Sets another jail than the full one.
    pub fn with_jail(self, jail: Jail) -> Self {
        self.runtimes.forget();
        Self { jail, ..self }
    }

    /// Sets the scope of the tasks that watch machines.
    pub fn with_scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// Sets the range of user ids for jailed machines.
    pub fn with_users(self, users: Range<u32>) -> Self {
        Self { users, ..self }
    }

    /// Limits the memory of all machines together, in bytes. Without the limit, machines that dirty
    /// their memory at once can exhaust the host's.
    pub fn with_memory_of_all(self, bytes: u64) -> Self {
        Self { memory_of_all: Some(bytes), ..self }
    }

    /// The runtime bundle of new layers.
    pub fn bundle(&self) -> &Bundle {
        self.runtimes.newest()
    }

    /// Removes bundles that no layer needs, and returns their digests. Keeps the newest.
    pub fn collect(&self, needed: &HashSet<String>) -> Vec<String> {
        self.runtimes.collect(needed)
    }

    async fn begin(
        &self,
        spec: MachineSpec,
        source: MachineSource<'_>,
        state: Option<File>,
    ) -> Result<BlankProcess, MachineStartError> {
        let netns = Netns::open(&spec.network.netns)
            .map_err(|cause| MachineStartError::Network { netns: spec.network.netns.clone(), cause })?;
        let runtime = self.runtime(spec.runtime.clone()).await?;
        let view = JailedPaths::of(&source, self.jail)?;
        let launch = QemuLaunch {
            runtime: &runtime,
            jail: self.jail,
            users: &self.users,
            spec: &spec,
            arguments: arguments(&seen_from_inside(&spec), &self.shape, &view.origin()),
            netns: &netns,
            mounts: view.mounts,
            opens: if self.jail == Jail::Full { OpenCalls::Held } else { OpenCalls::Free },
            state,
            limited: match source {
                // The guest runs as soon as the process starts.
                MachineSource::Boot(_) => LimitTiming::FromTheStart,
                MachineSource::Blank | MachineSource::Restore(_) => LimitTiming::Meanwhile,
            },
            memory_of_all: self.memory_of_all,
        };
        let started = QemuProcess::start(launch, &self.scope)?;
        Ok(BlankProcess { started, spec, netns, scope: self.scope.clone() })
    }

    async fn runtime(&self, digest: Option<String>) -> Result<Arc<Runtime>, MachineStartError> {
        let (runtimes, tier, jail) = (self.runtimes.clone(), self.shape.tier, self.jail);
        let ready = self.scope.block("runtime", move || runtimes.ready(digest.as_deref(), tier, jail)).await;
        ready.map_err(|error| MachineStartError::Spawn(io::Error::other(error)))?
    }

    fn profile_with(&self, runtime: &str) -> MachineProfile {
        MachineProfile {
            driver: if self.shape.tier == Tier::Kvm { "qemu-kvm" } else { "qemu-tcg" }.to_owned(),
            runtime: runtime.to_owned(),
            machine_type: MACHINE_TYPE.to_owned(),
            cpu_profile: self.shape.cpu_profile.clone(),
            tsc_khz: self.shape.tsc_khz,
        }
    }
}

/// Source of a machine, with host paths.
enum MachineSource<'a> {
    Boot(&'a BootImage),
    /// A layer that the process gets later.
    Blank,
    /// A layer that the process opens itself, without a jail.
    Restore(&'a LayerFiles),
}

/// The source with the paths that the process sees.
struct JailedPaths {
    /// A boot image, or the memory file of a restore.
    image: Result<BootImage, PathBuf>,
    mounts: Vec<(MountTree, CString)>,
}

impl JailedPaths {
    fn of(source: &MachineSource<'_>, jail: Jail) -> Result<JailedPaths, MachineStartError> {
        let mut mounts = Vec::new();
        let mut show = |file: &Path, at: &str| -> Result<PathBuf, MachineStartError> {
            if jail == Jail::Full {
                mounts.push(show(file, at).map_err(failed("mount a file for the process"))?);
                return Ok(at.into());
            }
            Ok(file.to_owned())
        };
        let image = match source {
            MachineSource::Boot(image) => Ok(BootImage {
                kernel: show(&image.kernel, KERNEL)?,
                initramfs: show(&image.initramfs, INITRAMFS)?,
                mem: if jail == Jail::Full { MEM.into() } else { image.mem.clone() },
                cmdline: image.cmdline.clone(),
            }),
            MachineSource::Blank => Err(MEM.into()),
            MachineSource::Restore(layer) => Err(layer.mem.clone()),
        };
        Ok(JailedPaths { image, mounts })
    }

    fn origin(&self) -> StartMode<'_> {
        match &self.image {
            Ok(image) => StartMode::Boot(image),
            Err(mem) => StartMode::Restore { mem },
        }
    }
}

#[async_trait]
impl Driver for QemuDriver {
    fn tier(&self) -> Tier {
        self.shape.tier
    }

    fn profile(&self) -> MachineProfile {
        self.profile_with(self.bundle().digest())
    }

    fn profile_of(&self, runtime: &str) -> Option<MachineProfile> {
        self.runtimes.find(runtime).map(|bundle| self.profile_with(bundle.digest()))
    }

    fn kernel_parameters(&self) -> String {
        kernel_parameters(&self.shape, "")
    }

    async fn boot(&self, spec: MachineSpec, image: BootImage) -> Result<Box<dyn Machine>, MachineStartError> {
        let memory = File::options().read(true).write(true).create(true).truncate(false).open(&image.mem);
        let memory = memory.map_err(MachineStartError::Spawn)?;
        memory.set_len(spec.memory.get()).map_err(MachineStartError::Spawn)?;
        let begun = self.begin(spec, MachineSource::Boot(&image), None).await?;
        Ok(Box::new(begun.finish(memory, Power::Running).await?))
    }

    async fn restore(&self, spec: MachineSpec, layer: &LayerFiles) -> Result<Box<dyn Machine>, MachineStartError> {
        if let Some(blank) = self.blank(spec.clone()).await? {
            return blank.restore(layer).await;
        }
        let state = blank::open_state(&layer.dev)?;
        let begun = self.begin(spec, MachineSource::Restore(layer), Some(state)).await?;
        begun.load(blank::open_memory(layer)?).await
    }

    async fn blank(&self, spec: MachineSpec) -> Result<Option<Box<dyn Blank>>, MachineStartError> {
        if self.jail == Jail::None {
            // Without a jail, no filter holds the process when it opens its memory.
            return Ok(None);
        }
        let state = blank::make_state(&spec)?;
        Ok(Some(Box::new(QemuBlank(self.begin(spec, MachineSource::Blank, Some(state)).await?))))
    }

    async fn adopt(&self, spec: MachineSpec, pid: Option<u32>) -> Result<Box<dyn Machine>, MachineStartError> {
        let netns = Netns::open(&spec.network.netns)
            .map_err(|cause| MachineStartError::Network { netns: spec.network.netns.clone(), cause })?;
        let process =
            QemuProcess::adopt(&spec, pid.ok_or(MachineStartError::Stranger { pid: 0 })?, self.jail, &self.scope)?;
        // The monitor serves one client at a time. The earlier client is gone or about to be.
        let monitor = monitor_socket(&spec.run_dir);
        let connected = tokio::time::timeout(START_DEADLINE, Qmp::connect(&monitor, &self.scope)).await;
        let qmp =
            connected.map_err(|_| MachineStartError::Deadline { deadline_ms: START_DEADLINE.as_millis() as u64 })??;
        let scope = self.scope.clone();
        let qmp = Arc::new(qmp);
        let power = power(&qmp).await?;
        let switch = CpuSwitch::new(spec.id, qmp.clone(), power, &scope);
        Ok(Box::new(QemuMachine { id: spec.id, process, qmp, switch, netns, network: spec.network, scope }))
    }
}

/// Reads the host's clock frequency, which emulated guests see unchanged.
fn host_khz() -> Option<u64> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = cpuinfo.lines().find(|line| line.starts_with("cpu MHz"))?;
    let mhz: f64 = line.split(':').nth(1)?.trim().parse().ok()?;
    Some((mhz * 1000.0) as u64)
}
