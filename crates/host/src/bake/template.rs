//! Boots a root file system once, warms the guest up, and seals it as the template's layer.

use std::{
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use pandastack_kit::{Scope, random_bytes};
use pandastack_layers::{BootKit, DataVolume, DataVolumeKind, FORMAT, LayerSealError, LayerStore, Manifest};
use pandastack_model::{ByteSize, LayerId, MachineId};
use pandastack_sys::{private, reflink::clone_or_copy};
use pandastack_vmm::{
    BootImage, Driver, LinkState, Machine, MachineError, MachineLimits, MachineSpec, MachineStartError, MachineState,
};
use pandastack_wire_fleet::{ExecEvent, ExecParams, UseKind};
use pandastack_wire_guest::{GENERATION, Rebirth};

use super::{
    BakeProgress, KernelSpec, Recipe, RootFs,
    initramfs::{InitramfsError, write_initramfs},
    limits::{BOOT_DEADLINE, BOOT_POLL, KERNEL_AGE, WARM_DEADLINE},
};
use crate::{
    guest::{GuestSession, LinkError, SpareConnection, exec, keep_warm},
    net::{GATEWAY, GUEST, NetError, NetPool},
};

/// Change this with the way a template is made.
const TEMPLATE_FORMAT: &str = "template 3";

/// The parts that a bake needs.
pub struct BakeSetup {
    pub driver: Arc<dyn Driver>,
    pub layers: LayerStore,
    /// The volume that holds the layers.
    pub volume: Arc<DataVolume>,
    pub net: Arc<NetPool>,
    /// The guest agent's static binary.
    pub agent: PathBuf,
    /// Folder for the machine's sockets and logs while it boots.
    pub run_dir: PathBuf,
    pub scope: Scope,
}

/// A baked template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BakedTemplate {
    pub layer: LayerId,
    /// Whether the layer already existed.
    pub cached: bool,
    pub boot: Duration,
}

/// A template could not be baked.
#[derive(Debug, thiserror::Error)]
pub enum BakeError {
    #[error("read the guest agent at {path}; build it with `make build` or name it with --agent")]
    Agent {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error(
        "the data volume has {free} free, but a first boot may need {needed}; free some space, or choose another \
         folder with --data-dir"
    )]
    Room { needed: ByteSize, free: ByteSize },
    #[error(transparent)]
    Initramfs(#[from] InitramfsError),
    #[error(transparent)]
    Net(#[from] NetError),
    #[error("start the machine")]
    Start(#[from] MachineStartError),
    #[error("the guest did not start within {seconds} s; its console output:\n{console}")]
    Silent { seconds: u64, console: String },
    #[error("the machine ended while booting ({reason}); its console output:\n{console}")]
    Died { reason: String, console: String },
    #[error("warm-up `{command}` failed: {reason}")]
    Warm { command: String, reason: String },
    #[error("communicate with the guest")]
    Link(#[from] LinkError),
    #[error("pause the machine")]
    Machine(#[from] MachineError),
    #[error("seal the layer")]
    Seal(#[from] LayerSealError),
    #[error("{action}")]
    Io {
        action: &'static str,
        #[source]
        cause: io::Error,
    },
}

/// Returns the template's layer or makes it, and points the recipe's names to it.
pub async fn bake(
    context: &BakeSetup,
    recipe: &Recipe,
    root: &RootFs,
    progress: &dyn BakeProgress,
) -> Result<BakedTemplate, BakeError> {
    let inputs = inputs(context, recipe, root)?;
    let profile = context.driver.profile();
    let found = context.layers.made_from(&inputs).and_then(|layer| Some((layer, context.layers.manifest(layer).ok()?)));
    let baked = match found {
        Some((layer, manifest)) if manifest.mismatch(&profile).is_none() => {
            progress.step("template: cached");
            BakedTemplate { layer, cached: true, boot: Duration::from_millis(manifest.boot_ms) }
        }
        _ => {
            check_room(context, recipe, root)?;
            boot_and_seal(context, recipe, root, inputs, progress).await?
        }
    };
    // A database's kernel is newer than the one that other root file systems are tested with.
    if recipe.suite == KIT_SUITE || !context.layers.boot_kit().kernel.exists() {
        keep_kit(context, root)?;
    }
    for name in recipe.aliases.iter().chain([&recipe.name]) {
        context.layers.name_template(name, baked.layer)?;
    }
    Ok(baked)
}

/// Refuses a bake that could fill the disk. The guest would wait for space, and the bake for the
/// guest.
fn check_room(context: &BakeSetup, recipe: &Recipe, root: &RootFs) -> Result<(), BakeError> {
    let disk =
        root.disk.metadata().map_err(|cause| BakeError::Io { action: "read the size of the root disk", cause })?;
    let needed = ByteSize::new(recipe.memory.get().saturating_add(disk.blocks() * 512));
    let free = ByteSize::new(context.volume.free_bytes());
    if free < needed { Err(BakeError::Room { needed, free }) } else { Ok(()) }
}

/// The suite whose kernel boots other root file systems.
const KIT_SUITE: &str = "bookworm";

/// Keeps the kernel and the initramfs, with which a server boots other root file systems.
fn keep_kit(context: &BakeSetup, root: &RootFs) -> Result<(), BakeError> {
    let BootKit { kernel, initramfs } = context.layers.boot_kit();
    let io = |cause| BakeError::Io { action: "store the kernel", cause };
    private::make_folder(kernel.parent().unwrap_or(Path::new("/"))).map_err(io)?;
    let fresh = |path: &Path| path.with_extension("new");
    std::fs::copy(&root.kernel, fresh(&kernel)).map_err(io)?;
    write_initramfs(&context.agent, &root.modules, &fresh(&initramfs))?;
    for path in [&kernel, &initramfs] {
        std::fs::rename(fresh(path), path).map_err(io)?;
    }
    Ok(())
}

fn inputs(context: &BakeSetup, recipe: &Recipe, root: &RootFs) -> Result<String, BakeError> {
    let agent =
        std::fs::read(&context.agent).map_err(|cause| BakeError::Agent { path: context.agent.clone(), cause })?;
    let profile = context.driver.profile();
    let mut hasher = blake3::Hasher::new();
    // The measured clock frequency varies, so it is left out. The manifest's profile checks it.
    let parameters = context.driver.kernel_parameters();
    let parameters: Vec<&str> = parameters.split(' ').filter(|word| !word.starts_with("tsc_early_khz=")).collect();
    let parameters = parameters.join(" ");
    let kernels: Vec<String> =
        recipe.kernels.iter().map(|kernel| format!("{} {}", kernel.language.name(), kernel.code)).collect();
    let (warm, kernels) = (recipe.warm.join("\n"), kernels.join("\0"));
    let shape = format!("{} {} {warm}", recipe.memory, recipe.cpus);
    let words = [
        TEMPLATE_FORMAT,
        &root.digest,
        &profile.driver,
        &profile.runtime,
        &profile.machine_type,
        &profile.cpu_profile,
        &parameters,
        &shape,
        &kernels,
    ];
    for part in words.iter().map(|word| word.as_bytes()).chain([agent.as_slice()]) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    Ok(hasher.finalize().to_hex()[..32].to_owned())
}

/// Copies the root disk. That of a recipe with variants is kept on the data volume, where all of
/// them share its blocks.
fn copy_root(context: &BakeSetup, recipe: &Recipe, root: &RootFs, to: &Path) -> io::Result<()> {
    if recipe.variants.is_empty() || context.volume.kind() == DataVolumeKind::Copies {
        return clone_or_copy(&root.disk, to).map(drop);
    }
    let kept = context.layers.keep_root(&recipe.family, &root.digest, &root.disk)?;
    clone_or_copy(&kept, to).map(drop)
}

async fn boot_and_seal(
    context: &BakeSetup,
    recipe: &Recipe,
    root: &RootFs,
    inputs: String,
    progress: &dyn BakeProgress,
) -> Result<BakedTemplate, BakeError> {
    let slot = context.net.take().await?;
    let id = MachineId::random();
    let run_dir = context.run_dir.join(id.to_string());
    let result = async {
        private::make_folder(&run_dir)
            .map_err(|cause| BakeError::Io { action: "create the machine's folder", cause })?;
        let draft = context.layers.draft()?;
        let files = draft.files();
        copy_root(context, recipe, root, &files.disk)
            .map_err(|cause| BakeError::Io { action: "copy the root disk", cause })?;
        let initramfs = run_dir.join("initramfs");
        write_initramfs(&context.agent, &root.modules, &initramfs)?;
        let secret = random_bytes::<32>();
        let secret_hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let spec = MachineSpec {
            id,
            memory: recipe.memory,
            cpus: recipe.cpus,
            disk: files.disk.clone(),
            run_dir: run_dir.clone(),
            network: slot.port(),
            runtime: None,
            limits: MachineLimits::of(recipe.memory, recipe.cpus),
        };
        let cmdline =
            format!("pandastack.secret={secret_hex} pandastack.net={GUEST}/30,{GATEWAY} pandastack.root=/dev/vda");
        let image = BootImage { kernel: root.kernel.clone(), initramfs, cmdline, mem: files.mem.clone() };
        progress.step("first boot");
        let machine = context.driver.boot(spec, image).await?;
        let warm_up = WarmUp { commands: &recipe.warm, kernels: &recipe.kernels, progress };
        let ready = get_ready(&context.scope, warm_up, &*machine, &secret, &run_dir, &files.dev).await;
        machine.stop().await;
        let ReadyGuest { boot, link } = ready?;
        progress.step("seal");
        let manifest = Manifest {
            format: FORMAT,
            layer: draft.id(),
            origin: format!("template {}", recipe.name),
            parent: None,
            inputs: Some(inputs),
            profile: context.driver.profile(),
            guest_generation: GENERATION,
            link_secret: secret_hex,
            link,
            memory: recipe.memory,
            cpus: recipe.cpus,
            disk: recipe.disk,
            boot_ms: boot.as_millis() as u64,
            defaults: None,
            volumes: Vec::new(),
            digests: None,
        };
        let layer = context.scope.block("seal", move || draft.seal(manifest)).await;
        let layer = layer.map_err(|error| BakeError::Io { action: "seal", cause: io::Error::other(error) })??;
        Ok(BakedTemplate { layer, cached: false, boot })
    }
    .await;
    let _ = std::fs::remove_dir_all(&run_dir);
    if let Err(error) = context.net.give_back(slot).await {
        tracing::warn!(%error, "could not remove a network slot");
    }
    result
}

/// A guest that can be sealed.
pub(super) struct ReadyGuest {
    pub boot: Duration,
    pub link: Option<LinkState>,
}

/// What runs in the guest before it is sealed.
pub(super) struct WarmUp<'a> {
    pub commands: &'a [String],
    pub kernels: &'a [KernelSpec],
    pub progress: &'a dyn BakeProgress,
}

/// Waits for the agent, warms the guest up, and saves its devices with its CPUs stopped.
pub(super) async fn get_ready(
    scope: &Scope,
    warm_up: WarmUp<'_>,
    machine: &dyn Machine,
    secret: &[u8],
    run_dir: &Path,
    dev: &Path,
) -> Result<ReadyGuest, BakeError> {
    let started = Instant::now();
    let session = wait_for_agent(scope, machine, secret, run_dir).await?;
    let boot = started.elapsed();
    let WarmUp { commands, kernels, progress } = warm_up;
    for command in commands {
        progress.step(&format!("warm up: {command}"));
        warm(scope, &session, command).await?;
    }
    if !kernels.is_empty() {
        age(&session, secret).await?;
    }
    for KernelSpec { language, code, rehearsal } in kernels {
        progress.step(&format!("warm up: {} kernel", language.name()));
        let kept = keep_warm(&session, *language, code, rehearsal.as_deref(), WARM_DEADLINE).await;
        kept.map_err(|error| BakeError::Warm { command: code.clone(), reason: error.to_string() })?;
    }
    session.quiesce().await?;
    session.thaw().await?;
    drop(session);
    let spare = match SpareConnection::open(machine, secret).await {
        Ok(spare) => Some(spare),
        Err(error) => {
            tracing::debug!(%error, "could not open a link to seal with the template");
            None
        }
    };
    // The agent ends the work of a closed connection at once. Wait for that, so that no copy starts
    // in the middle of it.
    tokio::time::sleep(Duration::from_millis(300)).await;
    machine.pause().await?;
    let link = spare.and_then(|spare| spare.state());
    machine.save_devices(dev).await?;
    Ok(ReadyGuest { boot, link })
}

/// Sets the guest's clock back. OpenSSL in a kernel that is sealed with the guest then finds its
/// seed too old in every sandbox, and asks for a new one. The rebirth of each sandbox sets the
/// clock.
async fn age(session: &GuestSession, secret: &[u8]) -> Result<(), LinkError> {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let wall_clock_ns = since_epoch.saturating_sub(KERNEL_AGE).as_nanos() as u64;
    let entropy = random_bytes::<64>().to_vec();
    session.rebirth(&Rebirth { wall_clock_ns, entropy, secret: secret.to_vec(), identity: None }).await
}

async fn wait_for_agent(
    scope: &Scope,
    machine: &dyn Machine,
    secret: &[u8],
    run_dir: &Path,
) -> Result<GuestSession, BakeError> {
    let console = || {
        let bytes = std::fs::read(run_dir.join("console.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(3000)..]).into_owned()
    };
    let deadline = Instant::now() + BOOT_DEADLINE;
    loop {
        if let MachineState::Dead { reason } = machine.watch().borrow().clone() {
            return Err(BakeError::Died { reason, console: console() });
        }
        if let Ok(link) = machine.dial().await {
            match GuestSession::open(link, secret, None, scope).await {
                Ok(session) => return Ok(session),
                Err(error) => tracing::debug!(%error, "the guest agent is not ready yet"),
            }
        }
        if Instant::now() > deadline {
            return Err(BakeError::Silent { seconds: BOOT_DEADLINE.as_secs(), console: console() });
        }
        tokio::time::sleep(BOOT_POLL).await;
    }
}

async fn warm(scope: &Scope, session: &GuestSession, command: &str) -> Result<(), BakeError> {
    let failed = |reason: String| BakeError::Warm { command: command.to_owned(), reason };
    let ask = ExecParams::shell(command, WARM_DEADLINE);
    let mut running = exec(session, ask, UseKind::Client, scope).await.map_err(|fault| failed(fault.to_string()))?;
    let mut output = Vec::new();
    while let Some(event) = running.events.recv().await {
        match event {
            ExecEvent::Stdout(bytes) | ExecEvent::Stderr(bytes) => {
                output.extend_from_slice(&bytes[..bytes.len().min(2000)])
            }
            ExecEvent::Exit { code: 0 } => return Ok(()),
            ExecEvent::Exit { code } => {
                return Err(failed(format!("exit status {code}\n{}", String::from_utf8_lossy(&output))));
            }
            ExecEvent::TimedOut { after } => return Err(failed(format!("timeout after {} s", after.as_secs()))),
            ExecEvent::Failed(fault) => return Err(failed(fault.to_string())),
        }
    }
    Err(failed("the connection to the guest was lost".to_owned()))
}
