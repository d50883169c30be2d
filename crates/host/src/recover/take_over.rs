//! Takes over living machines, with the same list of releases that a launch makes.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use pandastack_kit::{Secret, Undo};
use pandastack_model::{SandboxId, SandboxSpec, SandboxState};
use pandastack_vmm::{Machine, MachineError, MachineLimits, MachineStartError, Power};

use super::{
    RecoverError, RecoveryPlan,
    leftovers::{end_processes, was_short_of_memory},
};
use crate::{
    guest::GuestSession,
    ledger::{BilledSize, MachineRow, SandboxRecord, SandboxRow},
    net::NetError,
    sandbox::{
        DriverStart, GuestIdentity, HostContext, LivingMachine, MachineShape, ReachOutcome, dial_again, greet,
        hold_machine, open_slot,
    },
};

/// Machines that are taken over at the same time.
const AT_A_TIME: usize = 8;

/// The sandboxes of an earlier run, ready for their drivers.
#[derive(Default)]
pub struct RecoveredSandboxes {
    pub adopted: usize,
    pub asleep: usize,
    pub sandboxes: Vec<(SandboxId, u64, SandboxSpec, DriverStart)>,
}

/// Why a machine could not be taken over; it is ended then.
#[derive(Debug, thiserror::Error)]
enum AdoptError {
    #[error(transparent)]
    Layer(#[from] pandastack_layers::LayerOpenError),
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Start(#[from] MachineStartError),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    Volumes(pandastack_model::Fault),
    #[error("the guest agent does not respond")]
    Silent,
    #[error("the machine had no layer yet")]
    Blank,
}

/// Carries the plan out: every sandbox it keeps comes back as it was, or as failed with a reason.
pub async fn take_over(context: &Arc<HostContext>, plan: RecoveryPlan) -> Result<RecoveredSandboxes, RecoverError> {
    let mut found = RecoveredSandboxes::default();
    let mut kept = plan.kept_machines();
    for row in plan.asleep {
        let Some(layer) = row.record.layer else { continue };
        match context.layers.manifest(layer) {
            Ok(manifest) => {
                // A ledger of an earlier version has no facts about it.
                context.ledger.meter(row.id, &SandboxState::Asleep, BilledSize::of(&manifest)).await?;
                found.asleep += 1;
                found.sandboxes.push((row.id, row.generation, row.spec, DriverStart::Asleep(layer)));
            }
            // The ledger line stays, because the layer may become readable again.
            Err(error) => {
                tracing::error!(sandbox = %row.id, %error, "could not read the layer of a hibernated sandbox");
                let reason = format!("the layer of the hibernated sandbox cannot be read: {error}");
                found.sandboxes.push((row.id, row.generation, row.spec, DriverStart::Failed(reason)));
            }
        }
    }
    let mut failed = plan.failed;
    let attempts = stream::iter(plan.adopt).map(|(row, machine)| async move {
        let mut undo = Undo::new();
        let adopted = adopt(context, &row, &machine, &mut undo).await;
        (row, machine, undo, adopted)
    });
    // Several at a time: each waits for its guest, and the host serves no request before all are
    // done. The ledger is written after that: an attempt that is not polled may hold its only
    // connection.
    let attempts: Vec<_> = attempts.buffered(AT_A_TIME).collect().await;
    for (row, machine, undo, adopted) in attempts {
        match adopted {
            Ok(adopted) => {
                let living = Box::new(adopted.into_living(undo));
                tracing::info!(sandbox = %row.id, "adopted a machine");
                found.adopted += 1;
                let state = record_adopted(context, &row, BilledSize::of(&living.layer.manifest)).await?;
                found.sandboxes.push((row.id, row.generation, row.spec, DriverStart::Adopted(living, state)));
            }
            Err(error) => {
                tracing::warn!(sandbox = %row.id, %error, "could not adopt a machine");
                let reason = why_lost(context, &machine, &error);
                // Killed before its disk and network are released.
                kept.remove(&machine.id.to_string());
                end_processes(&context.run_root, &kept).await?;
                undo.unwind().await;
                context.volumes.release(row.id).await.map_err(RecoverError::Volumes)?;
                failed.push((row, reason));
            }
        }
    }
    for (row, reason) in failed {
        let state = SandboxState::Failed { reason: reason.clone() };
        context.ledger.record_lost(row.id, &SandboxRecord { state, layer: None, secret: None }).await?;
        found.sandboxes.push((row.id, row.generation, row.spec, DriverStart::Failed(reason)));
    }
    Ok(found)
}

/// Records a sandbox whose machine was taken over, and returns its state.
async fn record_adopted(
    context: &HostContext,
    row: &SandboxRow,
    size: BilledSize,
) -> Result<SandboxState, RecoverError> {
    let state = match row.record.state.clone() {
        SandboxState::Waking => {
            let (state, secret) = (SandboxState::Running, row.record.secret.clone());
            let now = SandboxRecord { state: state.clone(), layer: None, secret };
            context.ledger.record_machine(row.id, &now, size).await?;
            state
        }
        state => {
            // A ledger of an earlier version has no facts about it.
            context.ledger.meter(row.id, &state, size).await?;
            state
        }
    };
    Ok(state)
}

/// A machine that was taken over, without its list of releases.
struct AdoptedMachine {
    machine: Arc<dyn Machine>,
    session: GuestSession,
    secret: Vec<u8>,
    layer: pandastack_layers::Layer,
    slot: crate::sandbox::SlotHandle,
    disk: std::path::PathBuf,
    claim: crate::volumes::VolumeClaim,
}

impl AdoptedMachine {
    fn into_living(self, undo: Undo) -> LivingMachine {
        let AdoptedMachine { machine, session, secret, layer, slot, disk, claim } = self;
        let (boot, boot_mode) = (Duration::ZERO, "adopted");
        LivingMachine {
            machine,
            session,
            spare: crate::guest::SpareHolder::default(),
            secret: Secret::new(secret),
            layer,
            last_copy: crate::sandbox::LastCopy::default(),
            disk,
            slot,
            claim,
            undo,
            boot,
            prepared: Duration::ZERO,
            since: None,
            boot_mode,
            waits: 0,
        }
    }
}

/// Explains why a machine could not be taken over. If it ran out of memory, the text is the same as
/// on a running host. Call this before its control group is removed.
fn why_lost(context: &HostContext, machine: &MachineRow, error: &AdoptError) -> String {
    if !was_short_of_memory(&context.run_root, &machine.id.to_string()) {
        return format!("the machine could not be adopted: {error}");
    }
    let manifest = machine.layer.and_then(|layer| context.layers.manifest(layer).ok());
    let memory = manifest.map(|manifest| MachineLimits::of(manifest.memory, manifest.cpus).memory);
    match memory {
        Some(memory) => format!("killed: the machine used more than its {} MiB", memory.as_mib()),
        None => "killed: the machine used more than its memory".to_owned(),
    }
}

/// Adds the removal of an earlier run's slot to `undo`. It does nothing for a slot that was taken
/// over: its holder gives that back.
fn hold_orphan(context: &Arc<HostContext>, name: &str, undo: &mut Undo) {
    let (context, name) = (context.clone(), name.to_owned());
    undo.hold("orphaned slot", move || async move {
        if let Err(error) = context.net.discard(&name).await {
            tracing::error!(%error, "could not remove a network slot");
        }
    });
}

async fn adopt(
    context: &Arc<HostContext>,
    row: &SandboxRow,
    machine: &MachineRow,
    undo: &mut Undo,
) -> Result<AdoptedMachine, AdoptError> {
    // These exist, so they are released even if a later step fails. The ledger line goes last,
    // because it names the others.
    context.hold_line(machine.id, undo);
    context.hold_files(machine.id, undo);
    hold_orphan(context, &machine.slot, undo);
    // Fails after a reboot of the host, because the slot is gone.
    let slot = context.net.adopt(&machine.slot, &row.spec.egress).await?;
    let network = slot.port();
    let slot = context.hold_slot(slot, undo);
    open_slot(context, &slot, row.id, &row.spec).await?;
    let layer = context.layers.open_layer(machine.layer.ok_or(AdoptError::Blank)?)?;
    context.promise_present(layer.manifest.memory, undo);
    if let Some(owner) = &row.spec.owner {
        Arc::new(context.owners.present(owner, layer.manifest.memory)).hold(undo);
    }
    let spec = context.describe(machine.id, &MachineShape::of(&layer.manifest), network);
    let disk = spec.disk.clone();
    let adopted: Arc<dyn Machine> = Arc::from(context.driver.adopt(spec, machine.pid).await?);
    hold_machine(&adopted, undo);
    let secret = row.record.secret.clone().unwrap_or_default();
    // The last run may have ended in the middle of a seal. The ledger says whether the guest should
    // run.
    let wanted = if row.record.state == SandboxState::Paused { Power::Paused } else { Power::Running };
    if adopted.power().await? != Power::Running {
        adopted.resume().await?;
    }
    let is_waking = row.record.state == SandboxState::Waking;
    let session = if is_waking {
        // The last run ended during a wake that cannot be undone. The guest may or may not have the
        // new secret.
        greet(context, &*adopted, &layer, &|| GuestIdentity::Same.rebirth(&secret))
            .await
            .map_err(|_| AdoptError::Silent)?
    } else {
        match dial_again(context, &*adopted, &secret).await {
            ReachOutcome::Session(session) => session,
            // The guest waits for disk space. Its driver dials it again later; recovery does not
            // wait for that.
            ReachOutcome::Waits => GuestSession::lost(&context.scope),
            ReachOutcome::Silent => return Err(AdoptError::Silent),
        }
    };
    if wanted == Power::Paused {
        adopted.pause().await?;
    }
    let claim = context.volumes.held(row.id).await.map_err(AdoptError::Volumes)?;
    if is_waking && let Err(fault) = claim.grow_in_guest(&*adopted, &session).await {
        tracing::warn!(sandbox = %row.id, %fault, "could not extend the file system of a grown volume");
    }
    Ok(AdoptedMachine { machine: adopted, session, secret, layer, slot, disk, claim })
}
