//! A host for one test: real machines, its own data folder on the shared reflink volume, its own
//! network instance.

use std::{panic::AssertUnwindSafe, path::PathBuf, sync::Arc};

use anyhow::Result;
use futures_util::FutureExt;
use pandastack_host::{Host, HostSettings, HostSetup, net::NetSettings};
use pandastack_layers::{DataVolume, LayerStore};
use pandastack_model::{LayerId, SandboxId, SandboxSpec, TemplateName};
use pandastack_vmm::Driver;
use pandastack_wire_fleet::{EnsureParams, ExecEvent, ExecParams, ForkParams, HostPort};

use crate::{DataFolder, InstanceLeftovers, PATIENCE, machine_driver, stretched};

/// A running host with the template `mini`.
pub struct Bed {
    pub host: Arc<Host>,
    pub layers: LayerStore,
    pub driver: Arc<dyn Driver>,
    pub instance: String,
    pub run_root: PathBuf,
    pub data_dir: PathBuf,
    volume: Arc<DataVolume>,
    /// Last field: dropped after everything that uses it.
    _folder: DataFolder,
}

/// The folder with the templates that `make test` baked.
pub fn template_data_dir() -> PathBuf {
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    std::env::var_os("PANDASTACK_DATA_DIR").map_or_else(|| home.join(".cache/pandastack/data"), PathBuf::from)
}

impl Bed {
    /// Starts with the default settings.
    pub async fn start() -> Result<Self> {
        Self::start_with(HostSettings::default(), |net| net).await
    }

    /// Starts with the test's settings.
    pub async fn start_with(settings: HostSettings, net: impl FnOnce(NetSettings) -> NetSettings) -> Result<Self> {
        let settings = HostSettings { launch_deadline: stretched(settings.launch_deadline), ..settings };
        let folder = DataFolder::with_templates()?;
        let data_dir = folder.path().to_owned();
        let volume = Arc::new(DataVolume::open(&data_dir, 0)?);
        let layers = LayerStore::open(volume.root())?;
        let driver: Arc<dyn Driver> = Arc::new(machine_driver()?);
        let instance = data_dir.display().to_string();
        let run_root = PathBuf::from(format!("/run/pandastack/t-{}", &SandboxId::random().to_string()[..8]));
        let parts = HostSetup {
            driver: driver.clone(),
            layers: layers.clone(),
            volume: volume.clone(),
            // A spare slot would be made and removed without use.
            net: net(NetSettings { ready: 1, ..NetSettings::of(instance.clone()) }),
            ledger: data_dir.join("ledger.db"),
            run_root: run_root.clone(),
            settings,
        };
        let host = Arc::new(Host::start(parts).await?);
        Ok(Self { host, layers, driver, instance, run_root, data_dir, volume, _folder: folder })
    }

    /// Creates a sandbox from `mini`.
    pub async fn create(&self) -> Result<SandboxId> {
        let id = SandboxId::random();
        self.host.ensure(EnsureParams { id, generation: 1, spec: spec("mini") }).await?;
        Ok(id)
    }

    /// Forks a sandbox into so many children and returns their ids in order.
    pub async fn fork(&self, parent: SandboxId, count: usize) -> Result<Vec<SandboxId>> {
        let child = || EnsureParams { id: SandboxId::random(), generation: 1, spec: spec("mini") };
        let children: Vec<EnsureParams> = (0..count).map(|_| child()).collect();
        let ids = children.iter().map(|child| child.id).collect();
        let forked = self.host.fork(ForkParams { parent, layer: LayerId::random(), children }).await?;
        forked.children.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(ids)
    }

    /// Runs a shell command that must succeed, and returns its output without the final newline.
    ///
    /// # Panics
    /// If the command cannot be run or fails.
    pub async fn out(&self, id: SandboxId, command: &str) -> String {
        let (output, code) = self.sh(id, command).await.expect("the command runs");
        assert_eq!(code, 0, "{command}: {output}");
        output.trim_end().to_owned()
    }

    /// Runs a shell command and returns its output and exit code.
    pub async fn sh(&self, id: SandboxId, command: &str) -> Result<(String, i32)> {
        let ask = ExecParams::shell(command, PATIENCE);
        let mut session = self.host.exec(id, ask).await?;
        let mut output = Vec::new();
        while let Some(event) = session.events.recv().await {
            match event {
                ExecEvent::Stdout(bytes) | ExecEvent::Stderr(bytes) => output.extend_from_slice(&bytes),
                ExecEvent::Exit { code } => return Ok((String::from_utf8_lossy(&output).into_owned(), code)),
                ExecEvent::TimedOut { after } => anyhow::bail!("timeout after {after:?}"),
                ExecEvent::Failed(fault) => return Err(fault.into()),
            }
        }
        anyhow::bail!("the exec ended without a terminal event")
    }

    /// Closes the host and removes the data folder.
    pub async fn close(self) {
        self.host.close().await;
        self.volume.close();
    }

    /// Finds all resources of this host.
    pub async fn leftovers(&self) -> Result<InstanceLeftovers> {
        InstanceLeftovers::find(&self.instance, &self.run_root, &self.data_dir).await
    }
}

/// Runs a test's body on its own host. Closes the host however the body ends, and then checks that
/// no resource is left.
pub async fn with_bed(
    settings: HostSettings,
    net: impl FnOnce(NetSettings) -> NetSettings,
    body: impl AsyncFnOnce(&Bed),
) {
    let bed = Bed::start_with(settings, net).await.expect("a host starts");
    let outcome = AssertUnwindSafe(body(&bed)).catch_unwind().await;
    bed.host.close().await;
    let left = bed.leftovers().await;
    bed.close().await;
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
    assert_eq!(
        left.expect("leftovers can be looked for"),
        InstanceLeftovers::default(),
        "the host left something behind"
    );
}

/// A plain specification of a sandbox.
pub fn spec(template: &str) -> SandboxSpec {
    SandboxSpec::of(template.parse::<TemplateName>().expect("the test names a template"))
}
