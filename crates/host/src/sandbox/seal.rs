//! Seals a machine into a layer: device state, the memory its guest has changed, and its disk, all
//! of one moment. Nothing is needed of the guest, so that no guest can hinder it, and no memory is
//! streamed: what is unchanged is shared with the layer below.
//!
//! ```text
//! beforehand   record the layer, clone the memory file, make room for what has changed, write the disk's pending data out,
//!              see to a spare link
//! paused       device state | changed memory | clone of the disk        side by side
//! afterwards   go on, write the changed memory over the clone, move the layer into the store
//! ```
//! Who falls asleep stays paused until everything has reached the disk.

use std::{
    fs, io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use pandastack_kit::ScopeError;
use pandastack_layers::{Defaults, Draft, Durability, FORMAT, Layer, Manifest, hot};
use pandastack_model::{Bytes, ExecDefaults, LayerId, SandboxId};
use pandastack_sys::{pagemap::buffer, reflink::clone_or_copy};
use pandastack_vmm::{LayerFiles, LinkState, Machine, MachineError, MemoryDelta};
use pandastack_wire_guest::GENERATION;

use super::{held::Permit, living::Living, prepare::HostContext};
use crate::ledger::LedgerError;

/// How often a machine is told to go on, or to stand still again, before that is given up.
const TELLS_MAX: usize = 3;

/// Between two of these times.
const TELL_PAUSE: Duration = Duration::from_millis(20);

/// What to make.
#[derive(Clone, Debug)]
pub struct SealPlan {
    pub layer: LayerId,
    pub source: SandboxId,
    pub durability: Durability,
    pub then: Then,
    /// How commands start in what is made from the layer; as in the layer below if nothing is said.
    pub defaults: Option<ExecDefaults>,
}

/// What the machine does once its state is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Goes on as soon as it can.
    GoOn,
    /// Stands still until the layer is whole, and after.
    StayPaused,
}

/// A finished seal.
pub struct Sealed {
    pub layer: Layer,
    /// How long the guest stood still.
    pub pause: Duration,
    /// Memory that the layer has for itself alone.
    pub own: Bytes,
}

/// Nothing was sealed. What is left of the attempt has its line, and goes when the caller lets the
/// layer go. The machine does what it did before, if it lives.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    Store(#[from] pandastack_layers::SealError),
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error("only {free} are free on the data volume")]
    NoDisk { free: Bytes },
    #[error("{action}")]
    Io {
        action: &'static str,
        #[source]
        cause: io::Error,
    },
}

/// Seals a living machine, whose CPUs run.
pub async fn seal(context: &Arc<HostContext>, living: &Living, plan: SealPlan) -> Result<Sealed, SealError> {
    check_room(context, Bytes::new(0))?;
    // Written down first: a crash from here on leaves a line without a layer, or a layer that
    // nobody uses.
    context.ledger.sealing(plan.layer, plan.source).await?;
    draft_and_take(context, living, plan).await
}

/// Refuses what would use the reserve up: guests that run write to the same volume, and must not
/// meet its end.
fn check_room(context: &HostContext, changed: Bytes) -> Result<(), SealError> {
    let free = Bytes::new(context.volume.free_bytes());
    let needed = context.settings.disk_reserve.get().saturating_add(changed.get());
    if free.get() < needed { Err(SealError::NoDisk { free }) } else { Ok(()) }
}

async fn draft_and_take(context: &Arc<HostContext>, living: &Living, plan: SealPlan) -> Result<Sealed, SealError> {
    let (store, base, disk) = (context.layers.clone(), living.layer.files.mem.clone(), living.disk.clone());
    let (id, durability) = (plan.layer, plan.durability);
    let used = living.machine.memory_use(&base).await?;
    check_room(context, used.changed)?;
    let permit = match plan.then {
        Then::GoOn => context.held.admit(used.changed),
        Then::StayPaused => None,
    };
    let room = permit.as_ref().map_or(0, Permit::bytes);
    let drafted = context.scope.block("draft layer", move || -> Result<(Draft, Vec<u8>), SealError> {
        let draft = store.draft_of(id)?;
        let files = draft.files();
        copied("clone the memory", &base, &files.mem)?;
        // Only hints, so that the first machine on this layer need not wait for the disk.
        let _ = hot::write(&files.hot, &used.read);
        // A clone waits until the source's pending data is written, so most of that is done while
        // the guest still runs.
        let written = fs::File::open(&disk).and_then(|disk| disk.sync_data());
        written.map_err(|cause| SealError::Io { action: "write the disk out", cause })?;
        Ok((draft, buffer(room)))
    });
    let begun = Instant::now();
    let (draft, ()) = tokio::join!(drafted, living.spare.fill_quickly(&*living.machine, &living.secret));
    let (draft, room) = draft??;
    if plan.then == Then::GoOn {
        // Somebody may start from it in a moment. Begun after the pause it would come too late for
        // that (fork 180 ms instead of 140), and waited for before the pause it costs what it
        // saves.
        context.read_ahead(draft.files());
    }
    let drafted = begun.elapsed();
    let started = Instant::now();
    let taken = match living.machine.pause().await {
        Ok(()) => take(context, living, draft.files(), permit.as_ref().map(|permit| (room, permit.most()))).await,
        Err(error) => Err(error.into()),
    };
    let pause = match (plan.then, &taken) {
        (Then::StayPaused, Ok(_)) => Ok(()),
        // Whatever went wrong: the guest must not pay for it.
        (Then::GoOn, _) | (Then::StayPaused, Err(_)) => go_on(&*living.machine).await,
    };
    let Taken { held, own, link } = taken?;
    pause?;
    let pause = started.elapsed();
    let manifest = manifest_of(living, &plan, link);
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
            let pause = if plan.then == Then::StayPaused { started.elapsed() } else { pause };
            let finished = started.elapsed();
            tracing::debug!(layer = %plan.layer, ?drafted, ?pause, ?finished, %own, "seal stages");
            Ok(Sealed { layer, pause, own })
        }
        Err(error) => {
            if plan.then == Then::StayPaused {
                go_on(&*living.machine).await?;
            }
            Err(error)
        }
    }
}

/// Lets a guest go on that was paused only to be sealed, or that may have been: an answer that was
/// an error may only have been late. One that never does is stopped: its sandbox has failed then,
/// for everybody to see, instead of standing still while it is called running.
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

/// Lets a guest stand still that its owner has paused and that may have gone on. One that cannot be
/// told goes on: that costs its host something, and its owner nothing that could be lost.
pub async fn stand_still(machine: &dyn Machine) -> Result<(), MachineError> {
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

/// What was taken of a paused machine.
struct Taken {
    /// Changed memory that is still to be written.
    held: Option<MemoryDelta>,
    own: Bytes,
    link: Option<LinkState>,
}

/// Takes everything that must be of one moment.
async fn take(
    context: &Arc<HostContext>,
    living: &Living,
    files: LayerFiles,
    room: Option<(Vec<u8>, Bytes)>,
) -> Result<Taken, SealError> {
    let link = living.spare.state();
    let (disk, clone) = (living.disk.clone(), files.disk.clone());
    let cloning = context.scope.block("clone disk", move || copied("clone the disk", &disk, &clone));
    let memory = memory(&*living.machine, &living.layer.files.mem, &files.mem, room);
    let (devices, memory, disk) = tokio::join!(living.machine.save_devices(&files.dev), memory, cloning);
    devices?;
    disk??;
    let (held, own) = memory?;
    Ok(Taken { held, own, link })
}

async fn memory(
    machine: &dyn Machine,
    base: &Path,
    copy: &Path,
    room: Option<(Vec<u8>, Bytes)>,
) -> Result<(Option<MemoryDelta>, Bytes), MachineError> {
    // What the guest has changed since the look at its memory may be more than it has leave to
    // hold.
    if let Some((room, most)) = room
        && let Some(delta) = machine.hold_memory(base, room, most).await?
    {
        let own = delta.size();
        return Ok((Some(delta), own));
    }
    Ok((None, machine.save_memory(base, copy).await?))
}

fn manifest_of(living: &Living, plan: &SealPlan, link: Option<LinkState>) -> Manifest {
    let below = &living.layer.manifest;
    Manifest {
        format: FORMAT,
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
        defaults: plan.defaults.clone().map(Defaults::from).or_else(|| below.defaults.clone()),
        digests: None,
    }
}

fn copied(action: &'static str, from: &Path, to: &Path) -> Result<(), SealError> {
    clone_or_copy(from, to).map(drop).map_err(|cause| SealError::Io { action, cause })
}
