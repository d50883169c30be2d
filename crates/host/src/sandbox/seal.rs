//! Seals a machine into a layer: device state, changed memory, disk and volumes, all of one moment.
//! The guest need not cooperate, so it cannot prevent a seal. Unchanged memory is shared with the
//! layer below, not copied.
//!
//! ```text
//! beforehand   record the layer, clone the memory file, allocate a buffer for changed memory,
//!              write the pending data of disk and volumes out, open a spare link
//! paused       device state | changed memory | clones of disk and volumes        side by side
//! afterwards   resume, write the changed memory over the clone, move the layer into the store
//! ```
//! A sandbox that falls asleep stays paused until everything has reached the disk. It keeps its
//! volumes, so they are not part of its layer.

use std::{
    fs, io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use pandastack_kit::ScopeError;
use pandastack_layers::{
    Durability, FORMAT, FORMAT_WITH_VOLUMES, Layer, LayerDraft, Manifest, StoredExecDefaults, hot,
};
use pandastack_model::{ByteSize, ExecDefaults, LayerId, SandboxId};
use pandastack_sys::{pagemap::buffer, reflink::clone_or_copy};
use pandastack_vmm::{LayerFiles, LinkState, Machine, MachineError, MemoryDelta};
use pandastack_wire_guest::GENERATION;

use super::{held::HeldMemoryPermit, living::LivingMachine, prepare::HostContext};
use crate::{
    ledger::LedgerError,
    volumes::{SealedVolumes, VolumeImages, VolumeLock},
};

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
    let (store, base, disk) = (context.layers.clone(), living.layer.files.mem.clone(), living.disk.clone());
    let images = living.claim.images(plan.volumes);
    let (id, durability, pending) = (plan.layer, plan.durability, images.clone());
    let used = living.machine.memory_use(&base).await?;
    check_room(context, used.changed)?;
    let permit = match plan.then {
        AfterSeal::GoOn => context.held.admit(used.changed),
        AfterSeal::StayPaused => None,
    };
    let room = permit.as_ref().map_or(0, HeldMemoryPermit::bytes);
    let drafted = context.scope.block("draft layer", move || -> Result<(LayerDraft, Vec<u8>), SealError> {
        let draft = store.draft_of(id)?;
        let files = draft.files();
        copied("clone the memory", &base, &files.mem)?;
        // Only hints: they save the first machine of this layer from waiting for the disk.
        let _ = hot::write(&files.hot, &used.read);
        write_out(&disk, &pending)?;
        Ok((draft, buffer(room)))
    });
    let begun = Instant::now();
    let (draft, ()) = tokio::join!(drafted, living.spare.fill_quickly(&*living.machine, &living.secret));
    let (draft, room) = draft??;
    if plan.then == AfterSeal::GoOn {
        // A fork may start from the layer soon. After the pause this would come too late (fork 180
        // ms instead of 140). Waiting for it before the pause costs as much as it saves.
        context.read_ahead(draft.files());
    }
    let drafted = begun.elapsed();
    // Before the pause: a volume may be growing, and that waits for a running guest.
    let turns = images.turns().await;
    let started = Instant::now();
    let taken = match living.machine.pause().await {
        Ok(()) => {
            let room = permit.as_ref().map(|permit| (room, permit.most()));
            let volumes = LockedImages { images: images.clone(), turns };
            take(context, living, (draft.files(), volumes), room).await
        }
        Err(error) => Err(error.into()),
    };
    let pause = match (plan.then, &taken) {
        (AfterSeal::StayPaused, Ok(_)) => Ok(()),
        // After any failure the guest resumes.
        (AfterSeal::GoOn, _) | (AfterSeal::StayPaused, Err(_)) => go_on(&*living.machine).await,
    };
    let CapturedState { held, own, link } = taken?;
    pause?;
    let pause = started.elapsed();
    let manifest = manifest_of(living, &plan, link, &images);
    let finished = context.scope.block("finish layer", move || -> Result<Layer, SealError> {
        let _permit = permit;
        if let Some(delta) = held {
            let written = delta.write_over(&draft.files().mem);
            written.map_err(|cause| SealError::Io { action: "write the changed memory", cause })?;
        }
        Ok(draft.seal_unread(manifest, durability)?)
    });
    let finished = finished.await.map_err(SealError::from).and_then(|layer| layer);
    match finished {
        Ok(layer) => {
            let pause = if plan.then == AfterSeal::StayPaused { started.elapsed() } else { pause };
            let finished = started.elapsed();
            tracing::debug!(layer = %plan.layer, ?drafted, ?pause, ?finished, %own, "seal stages");
            Ok(SealOutcome { layer, pause, own })
        }
        Err(error) => {
            if plan.then == AfterSeal::StayPaused {
                go_on(&*living.machine).await?;
            }
            Err(error)
        }
    }
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
    own: ByteSize,
    link: Option<LinkState>,
}

/// Captures everything that must be of one moment.
async fn take(
    context: &Arc<HostContext>,
    living: &LivingMachine,
    (files, volumes): (LayerFiles, LockedImages),
    room: Option<(Vec<u8>, ByteSize)>,
) -> Result<CapturedState, SealError> {
    let link = living.spare.state();
    let (disk, clone) = (living.disk.clone(), files.disk.clone());
    let cloning = context.scope.block("clone disk", move || copied("clone the disk", &disk, &clone));
    let targets = files.clone();
    let cloning_volumes =
        context.scope.block("clone volumes", move || volumes.images.clone_into(&targets, volumes.turns));
    let memory = memory(&*living.machine, &living.layer.files.mem, &files.mem, room);
    let devices = living.machine.save_devices(&files.dev);
    let (devices, memory, disk, volumes) = tokio::join!(devices, memory, cloning, cloning_volumes);
    devices?;
    disk??;
    volumes?.map_err(|cause| SealError::Io { action: "clone a volume", cause })?;
    let (held, own) = memory?;
    Ok(CapturedState { held, own, link })
}

async fn memory(
    machine: &dyn Machine,
    base: &Path,
    copy: &Path,
    room: Option<(Vec<u8>, ByteSize)>,
) -> Result<(Option<MemoryDelta>, ByteSize), MachineError> {
    // Since the scan, the guest may have changed more memory than its permit allows.
    if let Some((room, most)) = room
        && let Some(delta) = machine.hold_memory(base, room, most).await?
    {
        let own = delta.size();
        return Ok((Some(delta), own));
    }
    Ok((None, machine.save_memory(base, copy).await?))
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
