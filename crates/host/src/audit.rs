//! Compares the ledger with the host, and removes what has no owner. Intent is recorded before
//! anything is made, so a resource without a ledger line is a leak. Only leaks that two scans agree
//! on count. Also closes files and folders that other users of this computer could read.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use pandastack_model::{SandboxId, SandboxState};
use pandastack_sys::{private, usage};
use pandastack_wire_fleet::AuditReport;

use crate::{
    host::SandboxEntry,
    ledger::{LedgerError, MachineRow, SandboxRow},
    modes::{self, OpenPath},
    net::{self, NetError},
    recover::{folders, groups, machine_processes, remove_group},
    sandbox::HostContext,
};

/// Pause between the two scans of one audit: longer than a removal in progress takes.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// The audit failed.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Scope(#[from] pandastack_kit::ScopeError),
}

/// A resource without an owner, or a recorded resource that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Leak {
    Process(String),
    Group(String),
    Folder(String),
    Disk(String),
    Slot(String),
    Link(String),
    Layer(String),
    MissingLayer(String),
    Draft(String),
    Machine(String),
    Sandbox(String),
    /// Complete, but without a driver. Only a person can decide whether it may be removed.
    Undriven(String),
    UndrivenMachine(String),
    VolumeUse(String),
    Open(OpenPath),
}

/// The sandboxes that have a driver.
pub type SandboxTable = Arc<Mutex<HashMap<SandboxId, SandboxEntry>>>;

/// Lock guard, held during an audit. Two audits at once would both report the same leak.
pub type AuditTurn = tokio::sync::OwnedMutexGuard<()>;

/// Result of one scan.
struct AuditScan {
    report: AuditReport,
    leaks: BTreeSet<Leak>,
}

/// Audits at the host's start, and then at an interval. The caller has already taken the lock for
/// the first audit, so that an audit on request waits for it.
pub async fn repeat(context: Arc<HostContext>, driven: SandboxTable, mut turn: AuditTurn) {
    let token = context.scope.token();
    loop {
        match audit_in_turn(&context, &driven, turn).await {
            Ok(report) if report.leaks.is_empty() => tracing::debug!("audit found no leaks"),
            Ok(report) => tracing::warn!(leaks = ?report.leaks, repaired = ?report.repaired, "audit found leaks"),
            Err(error) => tracing::warn!(%error, "audit failed"),
        }
        tokio::select! {
            () = tokio::time::sleep(context.settings.audit_every) => {}
            () = token.cancelled() => return,
        }
        turn = context.audit_gate.clone().lock_owned().await;
    }
}

/// Scans twice, and repairs the leaks that both scans found.
pub async fn audit(context: &Arc<HostContext>, driven: &SandboxTable) -> Result<AuditReport, AuditError> {
    let turn = context.audit_gate.clone().lock_owned().await;
    audit_in_turn(context, driven, turn).await
}

async fn audit_in_turn(
    context: &Arc<HostContext>,
    driven: &SandboxTable,
    _turn: AuditTurn,
) -> Result<AuditReport, AuditError> {
    let first = look(context, driven).await?;
    if first.leaks.is_empty() {
        return Ok(first.report);
    }
    tokio::time::sleep(SECOND_LOOK).await;
    let second = look(context, driven).await?;
    let mut report = second.report;
    for leak in second.leaks.intersection(&first.leaks) {
        report.leaks.push(leak.to_string());
        if repair(context, leak).await {
            report.repaired.push(leak.to_string());
        }
    }
    if !report.repaired.is_empty() {
        // A removed line may have been the last reference to a layer.
        context.collect_layers().await;
    }
    Ok(report)
}

async fn look(context: &Arc<HostContext>, driven: &SandboxTable) -> Result<AuditScan, AuditError> {
    // Scan the host first, then the ledger: a resource made in between has its line by then.
    let processes: BTreeSet<String> = machine_processes(&context.run_root).into_iter().map(|(_, id)| id).collect();
    let groups: BTreeSet<String> = groups(&context.run_root).into_iter().collect();
    let folders: BTreeSet<String> = folders(&context.run_root).into_iter().collect();
    let (store, named) = (context.layers.clone(), context.layers.templates());
    let there = move || (store.disks(), store.layers(), store.drafts_before(own_start()));
    let (disks, layers, drafts) = context.scope.block("list layers", there).await?;
    let net::NetLeftovers { namespaces: slots, links, .. } = net::leftovers(&context.net.instance()).await?;
    let machines = context.ledger.machines().await?;
    let recorded = context.ledger.layers().await?;
    let owned: BTreeSet<String> = machines.iter().map(|machine| machine.id.to_string()).collect();
    let taken: BTreeSet<&str> = machines.iter().map(|machine| machine.slot.as_str()).collect();
    let templates: BTreeSet<_> = named.into_iter().map(|(_, layer)| layer).collect();
    let known: BTreeSet<_> = recorded.iter().map(|row| row.id).collect();
    let protected_layers = context.protected_layers.lock().expect("no holder panics").clone();
    let mut leaks = BTreeSet::new();
    leaks.extend(processes.difference(&owned).cloned().map(Leak::Process));
    leaks.extend(modes::open_paths(context.volume.data_dir(), &context.run_root).into_iter().map(Leak::Open));
    leaks.extend(groups.difference(&owned).cloned().map(Leak::Group));
    leaks.extend(folders.difference(&owned).cloned().map(Leak::Folder));
    leaks.extend(disks.iter().filter(|disk| !owned.contains(*disk)).cloned().map(Leak::Disk));
    leaks.extend(network_leaks(context, &taken, (&slots, &links)));
    leaks.extend(drafts.into_iter().map(Leak::Draft));
    let lost = machines.iter().filter(|row| is_lost(row, &processes, &folders, driven));
    leaks.extend(lost.map(|row| Leak::Machine(row.id.to_string())));
    // A bake may not have named its layer yet. Baked layers have digests; sealed layers have none.
    let sealed_here = |layer: &&pandastack_model::LayerId| {
        context.layers.manifest(**layer).is_ok_and(|manifest| manifest.digests.is_none())
    };
    let unknown =
        layers.iter().filter(|layer| !known.contains(layer) && !templates.contains(layer)).filter(sealed_here);
    leaks.extend(unknown.map(|layer| Leak::Layer(layer.to_string())));
    let missing = known.iter().filter(|layer| !layers.contains(layer) && !protected_layers.contains(layer));
    leaks.extend(missing.map(|layer| Leak::MissingLayer(layer.to_string())));
    let (volumes, users) = context.volumes.present().await?;
    let rows = context.ledger.sandboxes().await?;
    let sandboxes: BTreeSet<_> = rows.iter().map(|row| row.id).collect();
    let is_driven = |id: &SandboxId| driven.lock().expect("no holder panics").contains_key(id);
    // During shutdown, drivers leave their sandboxes to the next process.
    if !context.scope.token().is_cancelled() {
        leaks.extend(rows.iter().filter(|row| !is_driven(&row.id)).map(undriven));
        let living = machines.iter().filter(|row| !is_lost(row, &processes, &folders, driven));
        let alone = living.filter(|row| row.sandbox.is_some_and(|sandbox| !is_driven(&sandbox)));
        leaks.extend(alone.map(|row| Leak::UndrivenMachine(row.id.to_string())));
    }
    leaks.extend(users.iter().filter(|user| !sandboxes.contains(user)).map(|user| Leak::VolumeUse(user.to_string())));
    // Subtracted by id: a blank may have its line already, but its process only after the scan.
    let waiting =
        machines.iter().filter(|machine| machine.layer.is_none()).map(|machine| machine.id.to_string()).collect();
    let report = AuditReport {
        machines: processes.difference(&waiting).count(),
        slots: slots.len(),
        disks: disks.len(),
        layers: layers.len(),
        volumes,
        leaks: Vec::new(),
        repaired: Vec::new(),
    };
    Ok(AuditScan { report, leaks })
}

/// Network slots and links that neither a machine nor the pool has.
fn network_leaks(context: &HostContext, taken: &BTreeSet<&str>, (slots, links): (&[String], &[String])) -> Vec<Leak> {
    let (pooled, stuck) = (context.net.present(), context.net.stuck());
    let is_loose = |name: &&String| !taken.contains(name.as_str()) && !pooled.contains(*name);
    // Stuck slots count even if nothing is left of them, so that their numbers become free.
    let mut leaks: Vec<_> = stuck.iter().cloned().map(Leak::Slot).collect();
    leaks.extend(slots.iter().filter(is_loose).cloned().map(Leak::Slot));
    // Links without a namespace. A link with a namespace is removed with it. A link without a
    // number belongs to the pool.
    let is_numbered = |link: &str| link.rsplit_once('-').is_some_and(|(_, number)| number.parse::<usize>().is_ok());
    let unled = links.iter().filter(|link| is_numbered(link) && !slots.contains(link) && !stuck.contains(*link));
    leaks.extend(unled.filter(is_loose).cloned().map(Leak::Link));
    leaks
}

/// When this process started.
fn own_start() -> SystemTime {
    let age = usage::of_myself().map_or(Duration::ZERO, |usage| usage.age);
    // If the age is unknown, no draft counts as older.
    SystemTime::now().checked_sub(age).filter(|_| !age.is_zero()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Classifies the line of a sandbox without a driver. Only a half-made or half-removed sandbox may
/// be forgotten.
fn undriven(row: &SandboxRow) -> Leak {
    let id = row.id.to_string();
    match row.record.state {
        SandboxState::Creating | SandboxState::Stopping => Leak::Sandbox(id),
        SandboxState::Running
        | SandboxState::Paused
        | SandboxState::FallingAsleep
        | SandboxState::Asleep
        | SandboxState::Waking
        | SandboxState::Failed { .. } => Leak::Undriven(id),
    }
}

/// Whether nothing is left of a machine, or only files that no driver will remove.
fn is_lost(row: &MachineRow, processes: &BTreeSet<String>, folders: &BTreeSet<String>, driven: &SandboxTable) -> bool {
    let id = row.id.to_string();
    if processes.contains(&id) {
        return false;
    }
    // Its folder is made right after its line, and removed right before it.
    if !folders.contains(&id) {
        return true;
    }
    // `StandbyPool` checks the machines that have no sandbox.
    let (Some(pid), Some(sandbox)) = (row.pid, row.sandbox) else { return false };
    let driven = driven.lock().expect("no holder panics");
    driven.get(&sandbox).is_none_or(|entry| entry.condition.borrow().pid != Some(pid))
}

/// Removes what is left of a machine, then its ledger line, which names the rest.
async fn forget(context: &Arc<HostContext>, id: &str) -> bool {
    let Ok(rows) = context.ledger.machines().await else { return false };
    let Some(row) = rows.into_iter().find(|row| row.id.to_string() == id) else { return true };
    let _ = std::fs::remove_dir_all(context.run_root.join(id));
    context.layers.discard(id);
    match context.net.remove_stray(&row.slot).await {
        // The slot is in use again, or it never existed.
        Ok(()) | Err(NetError::Unknown { .. }) => context.ledger.gone(row.id).await.is_ok(),
        Err(_) => false,
    }
}

/// Removes the line of a missing layer, if nothing uses that layer.
async fn forget_layer(context: &Arc<HostContext>, id: &str) -> bool {
    let _gate = context.layer_gate.lock().await;
    let (Ok(layer), Ok(unused)) = (id.parse(), context.ledger.unused_layers().await) else { return false };
    unused.contains(&layer) && !context.is_protected(layer) && context.ledger.layer_gone(layer).await.is_ok()
}

async fn repair(context: &Arc<HostContext>, leak: &Leak) -> bool {
    match leak {
        Leak::Process(id) => {
            let found = machine_processes(&context.run_root).into_iter().filter(|(_, machine)| machine == id);
            found
                .map(|(pid, _)| nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL))
                .all(|done| done.is_ok())
        }
        Leak::Group(id) => remove_group(&context.run_root, id),
        Leak::Folder(name) => std::fs::remove_dir_all(context.run_root.join(name)).is_ok(),
        Leak::Disk(name) => {
            context.layers.discard(name);
            !context.layers.disk(name).exists()
        }
        Leak::Slot(name) | Leak::Link(name) => context.net.remove_stray(name).await.is_ok(),
        Leak::Layer(id) => match id.parse() {
            Ok(layer) => context.layers.remove(layer).is_ok(),
            Err(_) => false,
        },
        Leak::VolumeUse(id) => match id.parse() {
            Ok(sandbox) => context.volumes.release(sandbox).await.is_ok(),
            Err(_) => false,
        },
        Leak::Draft(name) => context.layers.discard_draft(name),
        Leak::Machine(id) => forget(context, id).await,
        Leak::Sandbox(id) => match id.parse() {
            Ok(id) => context.volumes.release(id).await.is_ok() && context.ledger.sandbox_lost(id).await.is_ok(),
            Err(_) => false,
        },
        Leak::Open(open) => private::close(&open.path).is_ok(),
        Leak::Undriven(_) | Leak::UndrivenMachine(_) => false,
        // A missing layer that is kept or in use needs a person.
        Leak::MissingLayer(id) => forget_layer(context, id).await,
    }
}

impl std::fmt::Display for Leak {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Leak::Process(id) => write!(f, "machine process {id} is not in the ledger"),
            Leak::Group(id) => write!(f, "control group of machine {id} is not in the ledger"),
            Leak::Folder(name) => write!(f, "machine folder {name} is not in the ledger"),
            Leak::Disk(name) => write!(f, "disk {name} is not in the ledger"),
            Leak::Slot(name) => write!(f, "network namespace {name} is not in use"),
            Leak::Link(name) => write!(f, "network link {name} has no namespace"),
            Leak::Draft(name) => write!(f, "draft layer {name} was left by an earlier process"),
            Leak::Machine(id) => write!(f, "machine {id} is recorded but not in use"),
            Leak::Sandbox(id) => write!(f, "sandbox {id} is recorded but was never created, or was removed"),
            Leak::Undriven(id) => write!(f, "sandbox {id} is recorded but has no driver task; inspect it by hand"),
            Leak::UndrivenMachine(id) => {
                write!(f, "machine {id} serves a sandbox without a driver task; inspect it by hand")
            }
            Leak::Layer(id) => write!(f, "layer {id} is not in the ledger"),
            Leak::VolumeUse(id) => write!(f, "volumes are held by sandbox {id}, which does not exist"),
            Leak::MissingLayer(id) => write!(f, "layer {id} is recorded but missing"),
            Leak::Open(open) => open.fmt(f),
        }
    }
}
