//! A host of a test's own: real machines, own data folder on the shared reflink volume, own network instance.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use pandastack_host::{Host, HostParts, HostSettings, net::NetSettings};
use pandastack_kit::Scope;
use pandastack_layers::{LayerStore, Volume};
use pandastack_model::{SandboxId, SandboxSpec, TemplateName};
use pandastack_sys::reflink::clone_or_copy;
use pandastack_vmm::Driver;
use pandastack_vmm_qemu::{QemuDriver, choose_tier};
use pandastack_wire_fleet::{Ensure, ExecAsk, ExecEvent, HostPort, Program};

/// A running host with the template `mini`.
pub struct Bed {
    pub host: Arc<Host>,
    pub layers: LayerStore,
    pub driver: Arc<dyn Driver>,
    pub instance: String,
    pub run_root: PathBuf,
    pub data_dir: PathBuf,
    shared: Volume,
    volume: Arc<Volume>,
}

/// The folder that `make test` baked its templates into.
pub fn template_data_dir() -> PathBuf {
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    std::env::var_os("PANDASTACK_DATA_DIR").map_or_else(|| home.join(".cache/pandastack/data"), PathBuf::from)
}

impl Bed {
    /// Starts with the default settings.
    pub async fn start() -> Result<Self> {
        Self::start_with(HostSettings::default(), |net| net).await
    }

    /// Starts with settings of the test's own.
    pub async fn start_with(settings: HostSettings, net: impl FnOnce(NetSettings) -> NetSettings) -> Result<Self> {
        let shared = Volume::open(&template_data_dir(), 0).context("open the templates; `make mini` bakes them")?;
        let data_dir = shared.root().join("tests").join(SandboxId::random().to_string());
        copy_templates(shared.root(), &data_dir.join("volume"))?;
        let volume = Arc::new(Volume::open(&data_dir, 0)?);
        let layers = LayerStore::open(volume.root())?;
        let tier = choose_tier(None, None)?;
        // Bundles are kept with the templates: making one copies a hundred megabytes.
        let driver: Arc<dyn Driver> = Arc::new(QemuDriver::new(tier.tier, &template_data_dir().join("runtime"), Scope::new())?);
        let instance = data_dir.display().to_string();
        let run_root = PathBuf::from(format!("/run/pandastack/t-{}", &SandboxId::random().to_string()[..8]));
        let parts = HostParts {
            driver: driver.clone(),
            layers: layers.clone(),
            volume: volume.clone(),
            net: net(NetSettings::of(instance.clone())),
            ledger: data_dir.join("ledger.db"),
            run_root: run_root.clone(),
            settings,
        };
        let host = Arc::new(Host::start(parts).await?);
        Ok(Self { host, layers, driver, instance, run_root, data_dir, shared, volume })
    }

    /// Creates a sandbox from `mini`.
    pub async fn create(&self) -> Result<SandboxId> {
        let id = SandboxId::random();
        self.host.ensure(Ensure { id, generation: 1, spec: spec("mini") }).await?;
        Ok(id)
    }

    /// Runs a shell command and gives its output and exit code.
    pub async fn sh(&self, id: SandboxId, command: &str) -> Result<(String, i32)> {
        let ask = ExecAsk {
            program: Program::Shell(command.to_owned()),
            cwd: None,
            env: Default::default(),
            user: None,
            stdin: false,
            deadline: Some(Duration::from_secs(60)),
            terminal: None,
        };
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

    /// Takes everything down and removes the data folder.
    pub async fn close(self) {
        self.host.close().await;
        self.volume.close();
        let _ = std::fs::remove_dir_all(&self.data_dir);
        self.shared.close();
    }
}

/// A plain specification of a sandbox.
pub fn spec(template: &str) -> SandboxSpec {
    SandboxSpec {
        template: template.parse::<TemplateName>().expect("the test names a template"),
        ttl_seconds: 300,
        persistent: false,
        metadata: Default::default(),
        env: Default::default(),
    }
}

/// Shares the templates' blocks with a store of the test's own, so that tests may damage them.
fn copy_templates(from: &Path, to: &Path) -> Result<()> {
    for folder in ["layers", "templates"] {
        std::fs::create_dir_all(to.join(folder))?;
    }
    for layer in std::fs::read_dir(from.join("layers")).context("find templates; `make mini` bakes them")? {
        let layer = layer?;
        let into = to.join("layers").join(layer.file_name());
        std::fs::create_dir_all(&into)?;
        for file in std::fs::read_dir(layer.path())? {
            let file = file?;
            clone_or_copy(&file.path(), &into.join(file.file_name()))?;
        }
    }
    for name in std::fs::read_dir(from.join("templates"))? {
        let name = name?;
        std::fs::copy(name.path(), to.join("templates").join(name.file_name()))?;
    }
    Ok(())
}
