//! Compares what the ledger says with what is there, and removes what nobody owns. Intent is written down before anything is
//! made, so whatever exists without a line is a leak; since things come and go meanwhile, only what two looks agree on counts.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use pandastack_wire_fleet::AuditReport;

use crate::{
    ledger::LedgerError,
    net::{self, NetError},
    recover::{folders, groups, machine_processes, remove_group},
    sandbox::Parts,
};

/// Between the two looks of one audit: longer than a removal under way takes.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// The audit could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Scope(#[from] pandastack_kit::ScopeError),
}

/// Something that exists without anybody owning it, or is owned and does not exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Leak {
    Process(String),
    Group(String),
    Folder(String),
    Disk(String),
    Slot(String),
    Layer(String),
    MissingLayer(String),
    VolumeUse(String),
}

/// What is there at one moment.
struct Look {
    report: AuditReport,
    leaks: BTreeSet<Leak>,
}

/// Audits at the host's start and every so often after it.
pub async fn repeat(parts: Arc<Parts>) {
    let token = parts.scope.token();
    loop {
        match audit(&parts).await {
            Ok(report) if report.leaks.is_empty() => tracing::debug!("audit: nothing leaks"),
            Ok(report) => tracing::warn!(leaks = ?report.leaks, repaired = ?report.repaired, "audit found leaks"),
            Err(error) => tracing::warn!(%error, "audit not made"),
        }
        tokio::select! {
            () = tokio::time::sleep(parts.settings.audit_every) => {}
            () = token.cancelled() => return,
        }
    }
}

/// Looks twice and removes what nobody owned both times.
pub async fn audit(parts: &Arc<Parts>) -> Result<AuditReport, AuditError> {
    let first = look(parts).await?;
    if first.leaks.is_empty() {
        return Ok(first.report);
    }
    tokio::time::sleep(SECOND_LOOK).await;
    let second = look(parts).await?;
    let mut report = second.report;
    for leak in second.leaks.intersection(&first.leaks) {
        report.leaks.push(leak.to_string());
        if repair(parts, leak).await {
            report.repaired.push(leak.to_string());
        }
    }
    Ok(report)
}

async fn look(parts: &Arc<Parts>) -> Result<Look, AuditError> {
    // Reality first, the ledger after it: what is made meanwhile has its line by then.
    let processes: BTreeSet<String> = machine_processes(&parts.run_root).into_iter().map(|(_, id)| id).collect();
    let groups: BTreeSet<String> = groups(&parts.run_root).into_iter().collect();
    let folders: BTreeSet<String> = folders(&parts.run_root).into_iter().collect();
    let (store, named) = (parts.layers.clone(), parts.layers.templates());
    let (disks, layers) = parts.scope.block("look at layers", move || (store.disks(), store.layers())).await?;
    let slots = net::leftovers(&parts.net.instance()).await?.namespaces;
    let pooled = parts.net.present();
    let machines = parts.ledger.machines().await?;
    let recorded = parts.ledger.layers().await?;
    let owned: BTreeSet<String> = machines.iter().map(|machine| machine.id.to_string()).collect();
    let taken: BTreeSet<&str> = machines.iter().map(|machine| machine.slot.as_str()).collect();
    let templates: BTreeSet<_> = named.into_iter().map(|(_, layer)| layer).collect();
    let known: BTreeSet<_> = recorded.iter().map(|row| row.id).collect();
    let in_hand = parts.in_hand.lock().expect("no holder panics").clone();
    let mut leaks = BTreeSet::new();
    leaks.extend(processes.difference(&owned).cloned().map(Leak::Process));
    leaks.extend(groups.difference(&owned).cloned().map(Leak::Group));
    leaks.extend(folders.difference(&owned).cloned().map(Leak::Folder));
    leaks.extend(disks.iter().filter(|disk| !owned.contains(*disk)).cloned().map(Leak::Disk));
    let loose = slots.iter().filter(|slot| !taken.contains(slot.as_str()) && !pooled.contains(*slot));
    leaks.extend(loose.cloned().map(Leak::Slot));
    // Layers that a bake has not named yet are of no sandbox: their manifest says what they were made from.
    let sealed_here = |layer: &&pandastack_model::LayerId| {
        parts.layers.manifest(**layer).is_ok_and(|manifest| manifest.digests.is_none())
    };
    let unknown =
        layers.iter().filter(|layer| !known.contains(layer) && !templates.contains(layer)).filter(sealed_here);
    leaks.extend(unknown.map(|layer| Leak::Layer(layer.to_string())));
    let missing = known.iter().filter(|layer| !layers.contains(layer) && !in_hand.contains(layer));
    leaks.extend(missing.map(|layer| Leak::MissingLayer(layer.to_string())));
    let (volumes, users) = parts.volumes.present().await?;
    let sandboxes: BTreeSet<_> = parts.ledger.sandboxes().await?.into_iter().map(|row| row.id).collect();
    leaks.extend(users.iter().filter(|user| !sandboxes.contains(user)).map(|user| Leak::VolumeUse(user.to_string())));
    // By name: one that waits may have its line already and its process only after our look.
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
    Ok(Look { report, leaks })
}

async fn repair(parts: &Arc<Parts>, leak: &Leak) -> bool {
    match leak {
        Leak::Process(id) => {
            let found = machine_processes(&parts.run_root).into_iter().filter(|(_, machine)| machine == id);
            found
                .map(|(pid, _)| nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL))
                .all(|done| done.is_ok())
        }
        Leak::Group(id) => remove_group(&parts.run_root, id),
        Leak::Folder(name) => std::fs::remove_dir_all(parts.run_root.join(name)).is_ok(),
        Leak::Disk(name) => {
            parts.layers.discard(name);
            !parts.layers.disk(name).exists()
        }
        Leak::Slot(name) => parts.net.remove_stray(name).await.is_ok(),
        Leak::Layer(id) => match id.parse() {
            Ok(layer) => parts.layers.remove(layer).is_ok(),
            Err(_) => false,
        },
        Leak::VolumeUse(id) => match id.parse() {
            Ok(sandbox) => parts.volumes.let_go(sandbox).await.is_ok(),
            Err(_) => false,
        },
        // A kept layer whose data is gone is for people to look at.
        Leak::MissingLayer(_) => false,
    }
}

impl std::fmt::Display for Leak {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Leak::Process(id) => write!(f, "machine process {id} that no ledger line names"),
            Leak::Group(id) => write!(f, "control group of machine {id} that no ledger line names"),
            Leak::Folder(name) => write!(f, "machine folder {name} that no ledger line names"),
            Leak::Disk(name) => write!(f, "disk {name} that no ledger line names"),
            Leak::Slot(name) => write!(f, "network namespace {name} that nobody has taken"),
            Leak::Layer(id) => write!(f, "layer {id} that no ledger line names"),
            Leak::VolumeUse(id) => write!(f, "volumes held by sandbox {id} that is not here"),
            Leak::MissingLayer(id) => write!(f, "layer {id} is recorded but not there"),
        }
    }
}
