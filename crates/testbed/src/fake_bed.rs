//! A host for one test on fake machines: the host, ledger, layer store and network namespaces are
//! real, only the machines and their guests are scripted. Starts in a fraction of a second and
//! needs no template.

use std::{
    io::Write as _,
    ops::Deref,
    panic::AssertUnwindSafe,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use pandastack_host::{
    Host, HostSettings, HostSetup,
    net::{self, NetSettings, SLOTS_MAX},
};
use pandastack_layers::{DataVolume, FORMAT, LayerStore, Manifest};
use pandastack_model::{ByteSize, Fault, LayerId, MachineId, SandboxId, SandboxSpec, SandboxState, VolumeMount};
use pandastack_vmm::{BootImage, Driver, MachineLimits, MachineSpec, NetworkAttachment};
use pandastack_vmm_fake::FakeDriver;
use pandastack_wire_fleet::{
    EnsureParams, ExecEvent, ExecParams, ExecSession, HostPort, Program, SandboxView, WriteParams,
};
use pandastack_wire_guest::GENERATION;

use crate::{
    InstanceLeftovers,
    alarms::{alarms, listen_for_alarms},
    fake_guest::{GuestScript, SEALED_SECRET, ScriptedGuest},
    spec,
    surroundings::PATIENCE,
    wait_for,
};

/// A faster close has not waited for the launch deadline of a bed, nor for the host's deadline for
/// its tasks (30 s).
const CLOSE_MAX: Duration = Duration::from_secs(25);

/// Longer than a test waits, so that none passes because a host gave up a silent guest.
const LAUNCH_DEADLINE: Duration = Duration::from_secs(600);

/// State that outlives a host's process: its folder with a tiny template `mini`, and the machines.
pub struct FakeHostState {
    pub driver: FakeDriver,
    pub script: GuestScript,
    pub layers: LayerStore,
    pub run_root: PathBuf,
    network: NetworkPrefix,
    volume: Arc<DataVolume>,
    /// Unmounted before the folder below it is removed: fields drop in this order.
    _small: Option<SmallVolume>,
    folder: tempfile::TempDir,
}

/// The name prefix of all network resources of a host.
struct NetworkPrefix(String);

impl Drop for NetworkPrefix {
    /// Cleans up after a failed test, which may leave namespaces, links and rules. A test that
    /// passed has checked that it left none.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let instance = std::mem::take(&mut self.0);
        // On its own thread, because the test's runtime may be shutting down.
        let sweep = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(net::sweep(&instance, &[])))
        });
        let _ = sweep.join();
    }
}

/// A file system in memory of a fixed size.
struct SmallVolume(PathBuf);

impl SmallVolume {
    fn mount(at: PathBuf, bytes: u64) -> Result<Self> {
        let size = format!("size={bytes}");
        let flags = nix::mount::MsFlags::empty();
        nix::mount::mount(Some("tmpfs"), &at, Some("tmpfs"), flags, Some(size.as_str()))?;
        Ok(Self(at))
    }
}

impl Drop for SmallVolume {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.0, nix::mount::MntFlags::MNT_DETACH);
    }
}

/// A running host with its state.
pub struct FakeBed {
    pub host: Arc<Host>,
    pub ground: Arc<FakeHostState>,
    /// Resources of the host before the first sandbox.
    idle: InstanceLeftovers,
}

impl Deref for FakeBed {
    type Target = FakeHostState;

    fn deref(&self) -> &FakeHostState {
        &self.ground
    }
}

impl FakeBed {
    /// Settings without standby machines and heartbeats, so that a test sees only the steps it
    /// causes.
    pub fn settings() -> HostSettings {
        let heartbeat_every = Duration::from_secs(3600);
        HostSettings {
            standby: 0,
            blanks: 0,
            launch_deadline: LAUNCH_DEADLINE,
            heartbeat_every,
            ..HostSettings::default()
        }
    }

    /// Starts a host with so many network slots on new state.
    pub async fn start(settings: HostSettings, slots_max: usize) -> Result<Self> {
        let ground = Arc::new(FakeHostState::make().await?);
        let host = ground.host(settings, slots_max).await?;
        let mut bed = Self { host: Arc::new(host), ground, idle: InstanceLeftovers::default() };
        bed.idle = InstanceLeftovers { files: Vec::new(), ledger: Vec::new(), ..bed.leftovers().await? };
        Ok(bed)
    }

    /// Starts a host on the state of an earlier one, however that one ended.
    pub async fn start_over(ground: Arc<FakeHostState>, settings: HostSettings) -> Result<Self> {
        let host = ground.host(settings, SLOTS_MAX).await?;
        // Recovery ends processes without an owner, but machines in memory have no process to find.
        ground.driver.end_machines_without_folder();
        Ok(Self { host: Arc::new(host), ground, idle: InstanceLeftovers::default() })
    }

    /// Requests a sandbox from `mini` with this id.
    pub async fn ensure(&self, id: SandboxId) -> Result<SandboxView, Fault> {
        self.host.ensure(EnsureParams { id, generation: 1, spec: spec("mini") }).await
    }

    /// Requests a sandbox from `mini` with volumes.
    pub async fn ensure_with(&self, id: SandboxId, volumes: Vec<VolumeMount>) -> Result<SandboxView, Fault> {
        self.host.ensure(EnsureParams { id, generation: 1, spec: SandboxSpec { volumes, ..spec("mini") } }).await
    }

    /// Creates a sandbox and returns its machine too.
    ///
    /// # Panics
    /// If the create fails, or if other machines were made meanwhile.
    pub async fn create(&self) -> (SandboxId, MachineId) {
        let (id, before) = (SandboxId::random(), self.driver.live());
        self.ensure(id).await.expect("a sandbox is created");
        let new: Vec<_> = self.driver.live().into_iter().filter(|machine| !before.contains(machine)).collect();
        assert_eq!(new.len(), 1, "a create makes one machine");
        (id, new[0])
    }

    /// Starts a program of the scripted guest.
    pub async fn exec(&self, id: SandboxId, command: &str) -> Result<ExecSession, Fault> {
        let ask = ExecParams {
            program: Program::Shell(command.to_owned()),
            cwd: None,
            env: Default::default(),
            user: None,
            stdin: true,
            deadline: None,
            terminal: None,
        };
        self.host.exec(id, ask).await
    }

    /// Runs a program to its end and returns its output and last event.
    pub async fn run(&self, id: SandboxId, command: &str) -> Result<(String, ExecEvent), Fault> {
        Ok(finish(self.exec(id, command).await?).await)
    }

    /// Waits until the host has no more resources than before its first sandbox: no machine, link,
    /// namespace, disk, folder, ledger entry.
    pub async fn is_idle(&self) {
        assert_eq!(self.driver.live(), [], "machines are stopped before anybody hears of the end");
        let left = self.leftovers().await.expect("leftovers can be looked for");
        assert_eq!(left, self.idle, "a sandbox left something behind");
        let unlinked = async || (self.driver.links() == 0).then_some(());
        wait_for("the last guest hung up", PATIENCE, unlinked).await;
    }

    /// Runs an audit and returns the number of layers and machines. There must be no leak.
    ///
    /// # Panics
    /// If there is one.
    pub async fn audited(&self) -> (usize, usize) {
        let report = self.host.audit().await.expect("the audit is made");
        assert_eq!(report.leaks, [""; 0], "something leaks");
        (report.layers, self.driver.live().len())
    }

    /// Writes a file in a sandbox, which wakes it.
    pub async fn put(&self, id: SandboxId, path: &str, text: &str) -> Result<(), Fault> {
        let body = stream::iter([Ok(bytes::Bytes::from(text.to_owned()))]).boxed();
        self.host.write_file(id, WriteParams { path: path.to_owned(), mode: None }, body).await.map(drop)
    }

    /// Reads a file in a sandbox, which wakes it.
    pub async fn text(&self, id: SandboxId, path: &str) -> Result<String, Fault> {
        let file = self.host.read_file(id, path).await?;
        let contents: Vec<bytes::Bytes> = file.body.try_collect().await?;
        Ok(String::from_utf8_lossy(&contents.concat()).into_owned())
    }

    /// The state of a sandbox, if it exists.
    pub async fn state(&self, id: SandboxId) -> Option<SandboxState> {
        Some(self.host.observe(id).await?.state)
    }
}

impl FakeHostState {
    /// Makes a folder with the template, and a driver without machines.
    pub async fn make() -> Result<Self> {
        Self::make_in(tempfile::tempdir()?, None).await
    }

    /// As `make`, with a data volume of exactly so many bytes.
    pub async fn with_small_volume(bytes: u64) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let volume = folder.path().join("volume");
        std::fs::create_dir(&volume)?;
        let mounted = SmallVolume::mount(volume, bytes)?;
        Self::make_in(folder, Some(mounted)).await
    }

    async fn make_in(folder: tempfile::TempDir, small: Option<SmallVolume>) -> Result<Self> {
        let volume = Arc::new(DataVolume::copies(folder.path())?);
        let layers = LayerStore::open(volume.root())?;
        let script = GuestScript::default();
        let guests = script.clone();
        let driver = FakeDriver::new(move |_| Arc::new(ScriptedGuest::new(guests.clone())));
        seal_mini(&layers, &driver).await?;
        let network = NetworkPrefix(folder.path().display().to_string());
        // Control groups are named after the last path component, so hosts in parallel need
        // different names.
        let own = folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let run_root = folder.path().join(format!("run{own}"));
        Ok(Self { driver, script, layers, run_root, network, volume, _small: small, folder })
    }

    /// Fills the data volume to its last byte, and returns the file that does.
    pub fn fill(&self) -> Result<PathBuf> {
        let path = self.volume.root().join("filler");
        let mut file = std::fs::File::create(&path)?;
        let piece = [1_u8; 4096];
        loop {
            match file.write_all(&piece) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Ok(path),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Starts a host here.
    async fn host(&self, settings: HostSettings, slots_max: usize) -> Result<Host> {
        let parts = HostSetup {
            driver: Arc::new(self.driver.clone()),
            layers: self.layers.clone(),
            volume: self.volume.clone(),
            // Slots made ahead would come and go while a test looks for leftovers.
            net: NetSettings { ready: 0, max: slots_max, ..NetSettings::of(self.network.0.clone()) },
            ledger: self.ledger(),
            run_root: self.run_root.clone(),
            settings,
        };
        Ok(Host::start(parts).await?)
    }

    /// The host's ledger file, for tests that damage it.
    pub fn ledger(&self) -> PathBuf {
        self.folder.path().join("ledger.db")
    }

    /// Folder of the sealed template's files, for tests that damage them.
    ///
    /// # Panics
    /// If the template is gone.
    pub fn mini(&self) -> PathBuf {
        self.folder_of(self.layers.template(&spec("mini").template).expect("the ground has the template"))
    }

    /// Bakes the template again, as an operator does beside a running host.
    ///
    /// # Panics
    /// If the bake fails.
    pub async fn bake_again(&self) {
        seal_mini(&self.layers, &self.driver).await.expect("the template is baked");
    }

    /// Folder of the volumes.
    pub fn volumes(&self) -> PathBuf {
        self.volume.root().join("volumes")
    }

    /// Folder of layer drafts.
    pub fn staging(&self) -> PathBuf {
        self.volume.root().join("staging")
    }

    /// Folder of a layer's files.
    pub fn folder_of(&self, layer: LayerId) -> PathBuf {
        self.volume.root().join("layers").join(layer.to_string())
    }

    /// Finds all resources of a host here.
    pub async fn leftovers(&self) -> Result<InstanceLeftovers> {
        InstanceLeftovers::find(&self.network.0, &self.run_root, self.folder.path()).await
    }
}

/// Runs a test's body on its own host. However the body ends, the host is closed. The close must be
/// fast and leave nothing behind.
pub async fn with_fake_bed(settings: HostSettings, body: impl AsyncFnOnce(&FakeBed)) {
    with_small_fake_bed(settings, SLOTS_MAX, body).await;
}

/// As [`with_fake_bed`], on a host with so many network slots.
pub async fn with_small_fake_bed(settings: HostSettings, slots_max: usize, body: impl AsyncFnOnce(&FakeBed)) {
    listen_for_alarms();
    let bed = FakeBed::start(settings, slots_max).await.expect("a host starts");
    let outcome = AssertUnwindSafe(body(&bed)).catch_unwind().await;
    bed.driver.faults().clear();
    let started = Instant::now();
    bed.host.close().await;
    let took = started.elapsed();
    let left = bed.leftovers().await;
    bed.volume.close();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
    assert_eq!(
        left.expect("leftovers can be looked for"),
        InstanceLeftovers::default(),
        "the host left something behind"
    );
    assert_eq!(bed.driver.live(), [], "the host left machines behind");
    assert_eq!(alarms(), [""; 0], "something went wrong that nobody was told of");
    assert!(took < CLOSE_MAX, "closing took {took:?}: a task did not end when it was told to");
}

/// Reads a program's events to the last one.
///
/// # Panics
/// If the events end without a final one.
pub async fn finish(mut session: ExecSession) -> (String, ExecEvent) {
    let mut output = Vec::new();
    while let Some(event) = session.events.recv().await {
        match event {
            ExecEvent::Stdout(bytes) | ExecEvent::Stderr(bytes) => output.extend_from_slice(&bytes),
            last => return (String::from_utf8_lossy(&output).into_owned(), last),
        }
    }
    panic!("the exec ended without a terminal event")
}

/// Bakes a template of a few bytes through the driver, as a real bake does.
async fn seal_mini(layers: &LayerStore, driver: &FakeDriver) -> Result<()> {
    let draft = layers.draft()?;
    let (files, folder) = (draft.files(), draft.folder().to_owned());
    std::fs::write(&files.disk, b"a root file system")?;
    let network = NetworkAttachment {
        netns: PathBuf::new(),
        tap: String::new(),
        mac: String::new(),
        guest_address: [192, 0, 2, 1].into(),
        guest_port: 1,
    };
    let (memory, disk) = (ByteSize::mib(1), files.disk.clone());
    let machine = MachineSpec {
        id: MachineId::random(),
        memory,
        cpus: 1,
        disk,
        run_dir: folder,
        network,
        runtime: None,
        limits: MachineLimits::of(memory, 1),
    };
    let nothing = files.disk.clone();
    let image =
        BootImage { kernel: nothing.clone(), initramfs: nothing, cmdline: String::new(), mem: files.mem.clone() };
    let machine = driver.boot(machine, image).await?;
    machine.pause().await?;
    machine.save_devices(&files.dev).await?;
    machine.stop().await;
    let manifest = Manifest {
        format: FORMAT,
        layer: LayerId::random(),
        origin: "a test".to_owned(),
        parent: None,
        inputs: None,
        profile: driver.profile(),
        guest_generation: GENERATION,
        link: None,
        link_secret: SEALED_SECRET.iter().map(|byte| format!("{byte:02x}")).collect(),
        memory,
        cpus: 1,
        disk: ByteSize::mib(1),
        boot_ms: 0,
        defaults: None,
        volumes: Vec::new(),
        digests: None,
    };
    let layer = draft.seal(manifest)?;
    layers.name_template(&spec("mini").template, layer)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_fails_takes_its_network_away() {
        let (tell, told) = std::sync::mpsc::channel();
        let failing = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let bed = FakeBed::start(FakeBed::settings(), SLOTS_MAX).await.expect("a host starts");
                bed.create().await;
                let taken = bed.leftovers().await.expect("leftovers can be looked for").network;
                tell.send((bed.network.0.clone(), taken)).expect("somebody listens");
                panic!("on purpose");
            });
        });
        assert!(failing.join().is_err());
        let (instance, taken) = told.recv().expect("a host was there");
        assert!(!taken.is_empty(), "the test took nothing");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let left = runtime.block_on(net::leftovers(&instance)).expect("leftovers can be looked for");
        assert_eq!([left.namespaces, left.links, left.tables].concat(), [""; 0]);
    }
}
