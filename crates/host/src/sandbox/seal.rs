//! Seals a machine into a layer: device state, changed memory, disk and volumes, all of one moment.
//! The guest need not cooperate, so it cannot prevent a seal. Unchanged memory is shared with the
//! layer below, not copied.
//!
//! ```text
//! beforehand   record the layer, clone the memory file, open a spare link, copy much changed memory
//!              while the guest runs, write the pending data of disk and volumes out, allocate a
//!              buffer for the rest of the memory
//! paused       device state | rest of the memory | clones of disk and volumes    side by side
//! afterwards   resume, write the changed memory over the clone, move the layer into the store
//! ```
//! A sandbox that falls asleep stays paused until everything has reached the disk. It keeps its
//! volumes, so they are not part of its layer.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use pandastack_kit::ScopeError;
use pandastack_layers::{
    Durability, FORMAT, FORMAT_WITH_VOLUMES, Layer, LayerDraft, Manifest, StoredExecDefaults, hot,
};
use pandastack_model::{ByteSize, ExecDefaults, LayerId, SandboxId};
use pandastack_sys::{pagemap::buffer, reflink::clone_or_copy};
use pandastack_vmm::{AheadCopy, LayerFiles, LinkState, Machine, MachineError, MemoryDelta, MemoryPart};
use pandastack_wire_guest::GENERATION;

use super::{held::HeldMemoryPermit, last_copy::CopiedMemory, living::LivingMachine, prepare::HostContext};
use crate::{
    ledger::LedgerError,
    volumes::{SealedVolumes, VolumeImages, VolumeLock},
};

/// More changed memory than this is copied while the guest runs. Copying it twice costs more than a
/// short pause saves.
const COPY_AHEAD_MIN: ByteSize = ByteSize::mib(32);

/// Maximum attempts to resume a machine, or to pause it again.
const TELLS_MAX: usize = 3;

/// Pause between two such attempts.
const TELL_PAUSE: Duration = Duration::from_millis(20);

/// Parameters of a seal.
#[derive(Clone, Debug)]
pub struct SealPlan {
    pub layer: LayerId,
    pub source: SandboxId,
    pub durability: Durability,
    pub then: AfterSeal,
    pub volumes: SealedVolumes,
    /// Exec defaults of the new layer. `None` keeps those of the layer below.
    pub defaults: Option<ExecDefaults>,
}

/// What the machine does after its state is captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterSeal {
    /// Resumes as soon as possible.
    GoOn,
    /// Stays paused until the layer is complete, and afterwards.
    StayPaused,
}

/// A finished seal.
pub struct SealOutcome {
    pub layer: Layer,
    /// How long the guest was paused.
    pub pause: Duration,
    /// Memory that the layer does not share with the one below.
    pub own: ByteSize,
}

/// Nothing was sealed. Leftovers have a ledger line and are removed when the caller releases the
/// layer. A living machine may run afterwards even if it was paused before.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    Store(#[from] pandastack_layers::LayerSealError),
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error("only {free} is free on the data volume")]
    NoDisk { free: ByteSize },
    #[error("{action}")]
    Io {
        action: &'static str,
        #[source]
        cause: io::Error,
    },
}

/// Seals a living machine.
pub async fn seal(
    context: &Arc<HostContext>,
    living: &LivingMachine,
    plan: SealPlan,
) -> Result<SealOutcome, SealError> {
    check_room(context, ByteSize::new(0))?;
    // Recorded first: a crash from here on leaves a line without a layer, or an unused layer.
    context.ledger.sealing(plan.layer, plan.source).await?;
    draft_and_take(context, living, plan).await
}

/// Refuses a seal that would use up the disk reserve: running guests write to the same volume and
/// need it.
fn check_room(context: &HostContext, changed: ByteSize) -> Result<(), SealError> {
    let free = ByteSize::new(context.volume.free_bytes());
    let needed = context.settings.disk_reserve.get().saturating_add(changed.get());
    if free.get() < needed { Err(SealError::NoDisk { free }) } else { Ok(()) }
}

async fn draft_and_take(
    context: &Arc<HostContext>,
    living: &LivingMachine,
    plan: SealPlan,
) -> Result<SealOutcome, SealError> {
    let PreparedSeal { draft, images, memory, permit, changed, took } = prepare(context, living, &plan).await?;
    let ahead = memory.ahead.clone();
    // Before the pause: a volume may be growing, and that waits for a running guest.
    let volumes = LockedImages { images: images.clone(), turns: images.turns().await };
    let started = Instant::now();
    let captured = take_paused(context, living, plan.then, (draft.files(), volumes), memory).await?;
    let paused = started.elapsed();
    // What was read during the pause lacks the pages that were copied before it.
    let own = captured.read.max(changed);
    let manifest = manifest_of(living, &plan, captured.link, &images);
    let (held, durability) = (captured.held, plan.durability);
    let finished = context.scope.block("finish layer", move || -> Result<Layer, SealError> {
        let _permit = permit;
        if let Some(delta) = held {
            let written = delta.write_over(&draft.files().mem);
            written.map_err(|cause| SealError::Io { action: "write the changed memory", cause })?;
        }
        Ok(draft.seal_unread(manifest, durability)?)
    });
    let finished = finished.await.map_err(SealError::from).and_then(|layer| layer);
    if finished.is_err() && plan.then == AfterSeal::StayPaused {
        go_on(&*living.machine).await?;
    }
    let layer = finished?;
    if let Some(ahead) = ahead
        && let Err(error) = living.last_copy.keep(&layer.files.mem, ahead, &context.scope)
    {
        tracing::debug!(%error, "the next seal copies all memory");
    }
    let finished = started.elapsed();
    let pause = if plan.then == AfterSeal::StayPaused { finished } else { paused };
    tracing::debug!(layer = %plan.layer, prepared = ?took, ?pause, ?finished, %own, "seal stages");
    Ok(SealOutcome { layer, pause, own })
}

/// What was made ready while the guest ran.
struct PreparedSeal {
    draft: LayerDraft,
    images: VolumeImages,
    memory: PausedMemory,
    /// Kept until the held memory is written.
    permit: Option<HeldMemoryPermit>,
    /// Memory that had changed when it began.
    changed: ByteSize,
    took: Duration,
}

async fn prepare(
    context: &Arc<HostContext>,
    living: &LivingMachine,
    plan: &SealPlan,
) -> Result<PreparedSeal, SealError> {
    let (store, base, disk) = (context.layers.clone(), living.layer.files.mem.clone(), living.disk.clone());
    let images = living.claim.images(plan.volumes);
    let (id, pending) = (plan.layer, images.clone());
    let used = living.machine.memory_use(&base).await?;
    check_room(context, used.changed)?;
    let last = match plan.then {
        AfterSeal::GoOn => living.last_copy.take(),
        AfterSeal::StayPaused => None,
    };
    let below = last.as_ref().map_or(base, CopiedMemory::path);
    let drafted = context.scope.block("draft layer", move || -> Result<LayerDraft, SealError> {
        let draft = store.draft_of(id)?;
        let files = draft.files();
        copied("clone the memory", &below, &files.mem)?;
        // Only hints: they save the first machine of this layer from waiting for the disk.
        let _ = hot::write(&files.hot, &used.read);
        Ok(draft)
    });
    let begun = Instant::now();
    let (draft, ()) = tokio::join!(drafted, living.spare.fill_quickly(&*living.machine, &living.secret));
    let draft = draft??;
    let (ahead, permit) = match plan.then {
        AfterSeal::GoOn => {
            let ahead = copied_ahead(context, living, (last, used.changed), draft.files().mem).await?;
            let permit = context.held.admit(ahead.as_ref().map_or(used.changed, |ahead| ahead.rest()));
            (ahead, permit)
        }
        AfterSeal::StayPaused => (None, None),
    };
    let bytes = permit.as_ref().map_or(0, HeldMemoryPermit::bytes);
    // After the copy of the memory, because a busy guest goes on writing.
    let ready = context.scope.block("flush disks", move || write_out(&disk, &pending).map(|()| buffer(bytes)));
    let room = ready.await??;
    if plan.then == AfterSeal::GoOn {
        // A fork may start from the layer soon. After the pause this would come too late (fork 180
        // ms instead of 140). Waiting for it before the pause costs as much as it saves.
        context.read_ahead(draft.files());
    }
    let room = permit.as_ref().map(|permit| (room, permit.most()));
    let memory = PausedMemory { ahead, room };
    Ok(PreparedSeal { draft, images, memory, permit, changed: used.changed, took: begun.elapsed() })
}

/// Pauses the guest, captures its state, and resumes it unless it is to stay paused.
async fn take_paused(
    context: &Arc<HostContext>,
    living: &LivingMachine,
    then: AfterSeal,
    to: (LayerFiles, LockedImages),
    memory: PausedMemory,
) -> Result<CapturedState, SealError> {
    let taken = match living.machine.pause().await {
        Ok(()) => take(context, living, to, memory).await,
        Err(error) => Err(error.into()),
    };
    if then == AfterSeal::StayPaused && taken.is_ok() {
        return taken;
    }
    // After any failure the guest resumes.
    let resumed = go_on(&*living.machine).await;
    let captured = taken?;
    resumed?;
    Ok(captured)
}

/// Writes pending data of disk and volumes out. A clone waits for it, so most of that is done while
/// the guest still runs.
fn write_out(disk: &Path, volumes: &VolumeImages) -> Result<(), SealError> {
    let written = fs::File::open(disk).and_then(|disk| disk.sync_data());
    written.map_err(|cause| SealError::Io { action: "flush the disk", cause })?;
    volumes.write_out().map_err(|cause| SealError::Io { action: "flush a volume", cause })
}

/// Resumes a guest that was paused for a seal, or may have been: a failed request may have been
/// carried out late. A guest that cannot be resumed is stopped. Its sandbox then fails visibly,
/// instead of hanging in state running.
pub async fn go_on(machine: &dyn Machine) -> Result<(), MachineError> {
    let mut told = machine.resume().await;
    for _ in 1..TELLS_MAX {
        if told.is_ok() {
            return told;
        }
        tokio::time::sleep(TELL_PAUSE).await;
        told = machine.resume().await;
    }
    if told.is_err() {
        machine.stop().await;
    }
    told
}

/// Pauses a guest again that its owner has paused and that may run. On failure it keeps running:
/// that costs the host CPU time, but the owner loses nothing.
pub async fn pause_again(machine: &dyn Machine) -> Result<(), MachineError> {
    let mut told = machine.pause().await;
    for _ in 1..TELLS_MAX {
        if told.is_ok() {
            return told;
        }
        tokio::time::sleep(TELL_PAUSE).await;
        told = machine.pause().await;
    }
    told
}

/// Volumes to be cloned, which do not grow meanwhile.
struct LockedImages {
    images: VolumeImages,
    turns: Vec<VolumeLock>,
}

/// State captured from a paused machine.
struct CapturedState {
    /// Changed memory that is still to be written.
    held: Option<MemoryDelta>,
    /// Size of the memory that was read during the pause.
    read: ByteSize,
    link: Option<LinkState>,
}

/// Captures everything that must be of one moment.
async fn take(
    context: &Arc<HostContext>,
    living: &LivingMachine,
    (files, volumes): (LayerFiles, LockedImages),
    memory: PausedMemory,
) -> Result<CapturedState, SealError> {
    let link = living.spare.state();
    let (disk, clone) = (living.disk.clone(), files.disk.clone());
    let cloning = context.scope.block("clone disk", move || copied("clone the disk", &disk, &clone));
    let targets = files.clone();
    let cloning_volumes =
        context.scope.block("clone volumes", move || volumes.images.clone_into(&targets, volumes.turns));
    let memory = capture_memory(context, &*living.machine, &living.layer.files.mem, &files.mem, memory);
    let devices = living.machine.save_devices(&files.dev);
    let (devices, memory, disk, volumes) = tokio::join!(devices, memory, cloning, cloning_volumes);
    devices?;
    disk??;
    volumes?.map_err(|cause| SealError::Io { action: "clone a volume", cause })?;
    let (held, read) = memory?;
    Ok(CapturedState { held, read, link })
}

/// How the memory of a paused machine is captured.
struct PausedMemory {
    /// What was copied while it ran.
    ahead: Option<Arc<dyn AheadCopy>>,
    /// Buffer for memory that is written to the file later, and how much that may be.
    room: Option<(Vec<u8>, ByteSize)>,
}

async fn capture_memory(
    context: &HostContext,
    machine: &dyn Machine,
    base: &Path,
    copy: &Path,
    PausedMemory { ahead, room }: PausedMemory,
) -> Result<(Option<MemoryDelta>, ByteSize), SealError> {
    let part = match ahead {
        Some(ahead) => {
            let written = context.scope.block("find written memory", move || ahead.written()).await?;
            written.map_or_else(all_changed, MemoryPart::Ranges)
        }
        None => MemoryPart::Changed,
    };
    // Since the scan, the guest may have changed more memory than its permit allows.
    if let Some((room, most)) = room
        && let Some(delta) = machine.hold_memory(base, &part, room, most).await?
    {
        let size = delta.size();
        return Ok((Some(delta), size));
    }
    Ok((None, machine.save_memory(base, &part, copy).await?))
}

/// Copies much changed memory while the guest runs.
async fn copied_ahead(
    context: &HostContext,
    living: &LivingMachine,
    (last, changed): (Option<CopiedMemory>, ByteSize),
    copy: PathBuf,
) -> Result<Option<Arc<dyn AheadCopy>>, SealError> {
    match last {
        Some(last) => copy_again(context, last, copy).await,
        None if changed > COPY_AHEAD_MIN => Ok(living.machine.copy_ahead(&living.layer.files.mem, &copy).await?),
        None => Ok(None),
    }
}

/// Copies what was written since the last seal, over a clone of its memory.
async fn copy_again(
    context: &HostContext,
    last: CopiedMemory,
    copy: PathBuf,
) -> Result<Option<Arc<dyn AheadCopy>>, SealError> {
    let again = move || {
        let copied = last.ahead.copy_again(&copy);
        copied.inspect_err(|error| tracing::debug!(%error, "all changed memory is copied")).ok().map(|()| last.ahead)
    };
    Ok(context.scope.block("copy memory again", again).await?)
}

/// Falls back to all changed pages. Those that the copy has already are among them.
fn all_changed(error: io::Error) -> MemoryPart {
    tracing::debug!(%error, "all changed memory is copied");
    MemoryPart::Changed
}

fn manifest_of(living: &LivingMachine, plan: &SealPlan, link: Option<LinkState>, images: &VolumeImages) -> Manifest {
    let below = &living.layer.manifest;
    let volumes = images.sealed();
    Manifest {
        format: if volumes.is_empty() { FORMAT } else { FORMAT_WITH_VOLUMES },
        layer: plan.layer,
        origin: format!("sandbox {}", plan.source),
        parent: Some(below.layer),
        inputs: None,
        profile: below.profile.clone(),
        guest_generation: below.guest_generation.min(GENERATION),
        link_secret: living.secret.reveal().iter().map(|byte| format!("{byte:02x}")).collect(),
        link,
        memory: below.memory,
        cpus: below.cpus,
        disk: below.disk,
        boot_ms: below.boot_ms,
        defaults: plan.defaults.clone().map(StoredExecDefaults::from).or_else(|| below.defaults.clone()),
        volumes,
        digests: None,
    }
}

fn copied(action: &'static str, from: &Path, to: &Path) -> Result<(), SealError> {
    clone_or_copy(from, to).map(drop).map_err(|cause| SealError::Io { action, cause })
}
