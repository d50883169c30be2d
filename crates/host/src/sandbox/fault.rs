//! Turns errors of a sandbox's operations into faults that say what to do.

use std::{io, time::Duration};

use pandastack_layers::{LayerOpenError, ManifestError};
use pandastack_model::{Fault, FaultKind, SandboxOrigin, SandboxRefusal, SandboxSpec, SandboxState};

use super::{admission::CapacityError, launch::LaunchError, prepare::PrepareError, seal::SealError};
use crate::net::NetError;

/// Explains a failed launch. Nothing was created, so a fault about capacity may suggest a retry.
pub fn launch_fault(error: LaunchError, spec: &SandboxSpec) -> Fault {
    let detail = chain(&error);
    let fault = match &error {
        LaunchError::Open(error) => open_fault(error, spec),
        LaunchError::Prepare(error) => prepare_fault(error),
        LaunchError::Silent { seconds } => {
            Fault::new(FaultKind::Unavailable, "guest.silent", format!("the sandbox did not start within {seconds} s"))
        }
        LaunchError::Died { .. } | LaunchError::Machine(_) => {
            Fault::new(FaultKind::Unavailable, "machine.died", "the sandbox's machine ended while it was starting")
        }
        LaunchError::Rebirth(_) => {
            Fault::new(FaultKind::Unavailable, "guest.confused", "the sandbox's agent sent an invalid response")
        }
        LaunchError::Volume(fault) | LaunchError::Share(fault) => return fault.clone(),
        LaunchError::NoVolumes => {
            let text = format!(
                "template {0} is too old for volumes; bake it again with `pandastack template bake {0}`",
                spec.template
            );
            Fault::new(FaultKind::Conflict, "template.no_volumes", text)
        }
        LaunchError::Ledger(error) => error.into(),
        LaunchError::Network(_) => {
            Fault::new(FaultKind::Unavailable, "network.rules", "the sandbox's network rules could not be set")
        }
        LaunchError::Abandoned => Fault::no_sandbox(),
    };
    fault.with_detail(detail)
}

/// Explains why a template's layer cannot be used.
fn open_fault(error: &LayerOpenError, spec: &SandboxSpec) -> Fault {
    match error {
        LayerOpenError::NoTemplate(name) => {
            let text = format!("unknown template \"{name}\"; bake it with `pandastack template bake {name}`");
            Fault::new(FaultKind::Caller, "template.unknown", text)
        }
        error if matches!(spec.origin, SandboxOrigin::Layer(_)) && is_gone(error) => {
            Fault::new(FaultKind::Missing, "snapshot.not_found", "the snapshot no longer exists")
        }
        LayerOpenError::Missing { .. }
        | LayerOpenError::Manifest { .. }
        | LayerOpenError::Unreadable { .. }
        | LayerOpenError::Damaged { .. } => {
            let text = format!(
                "template {} is damaged; bake it again with `pandastack template bake {}`",
                spec.template, spec.template
            );
            Fault::new(FaultKind::Unavailable, "template.damaged", text)
        }
        LayerOpenError::Io { .. } => Fault::bug("layer store"),
    }
}

/// Whether a layer is missing. It may also go while it is being opened.
fn is_gone(error: &LayerOpenError) -> bool {
    match error {
        LayerOpenError::Missing { .. } => true,
        LayerOpenError::Manifest { cause: ManifestError::Read(cause), .. } => cause.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Explains why a machine could not be prepared.
pub fn prepare_fault(error: &PrepareError) -> Fault {
    match error {
        PrepareError::Full(CapacityError::Disk { .. } | CapacityError::Volumes { .. }) => no_storage(),
        PrepareError::Full(CapacityError::Memory { .. } | CapacityError::Promises { .. }) => full(),
        PrepareError::Io { cause, .. } if is_full(cause) => no_storage(),
        PrepareError::Net(NetError::Full { .. }) => full(),
        PrepareError::Start(pandastack_vmm::MachineStartError::Profile { .. }) => Fault::new(
            FaultKind::Unavailable,
            "template.incompatible",
            "the template was baked for a different host; bake it again",
        ),
        PrepareError::Start(_) => {
            Fault::new(FaultKind::Unavailable, "machine.start", "the sandbox's machine could not be started")
        }
        PrepareError::Ledger(error) => error.into(),
        PrepareError::Net(_) | PrepareError::Scope(_) | PrepareError::Gone { .. } | PrepareError::Io { .. } => {
            Fault::bug("prepare")
        }
    }
}

/// Explains why a sandbox in this state refuses.
pub fn refusal_fault(refusal: SandboxRefusal, state: &SandboxState) -> Fault {
    match (refusal, state) {
        (SandboxRefusal::Gone, _) => Fault::no_sandbox(),
        (SandboxRefusal::Dead, SandboxState::Failed { reason }) => {
            Fault::new(FaultKind::Conflict, "sandbox.failed", format!("the sandbox's machine ended: {reason}"))
        }
        (SandboxRefusal::Paused, _) => {
            Fault::new(FaultKind::Conflict, "sandbox.invalid_state", "the sandbox is paused; resume it first")
        }
        (SandboxRefusal::Asleep, _) => {
            Fault::new(FaultKind::Conflict, "sandbox.invalid_state", "the sandbox is hibernated; wake it first")
        }
        (SandboxRefusal::Dead, _) => Fault::new(FaultKind::Conflict, "sandbox.failed", "the sandbox's machine ended"),
    }
}

/// Explains why a sandbox was not sealed. The sandbox continues as before.
pub fn seal_fault(error: SealError) -> Fault {
    let detail = chain(&error);
    let fault = match &error {
        SealError::NoDisk { .. } => no_storage(),
        SealError::Io { cause, .. } if is_full(cause) => no_storage(),
        SealError::Machine(_) => {
            Fault::new(FaultKind::Unavailable, "machine.refused", "the sandbox's machine could not be sealed")
        }
        SealError::Ledger(error) => error.into(),
        SealError::Store(_) | SealError::Scope(_) | SealError::Io { .. } => Fault::bug("seal"),
    };
    fault.with_detail(detail)
}

fn full() -> Fault {
    Fault::new(FaultKind::Busy, "host.full", "no compute capacity available").with_retry_after(Duration::from_secs(5))
}

fn no_storage() -> Fault {
    Fault::new(FaultKind::Storage, "host.storage", "insufficient host storage for sandbox")
}

/// Says that there is no room for a volume.
pub fn volume_fault(full: &CapacityError) -> Fault {
    Fault::new(FaultKind::Storage, "host.storage", "insufficient host storage for volume").with_detail(full.to_string())
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Joins the chain of causes on one line, for the log.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
