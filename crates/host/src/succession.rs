//! Replaces a sandbox's driver after a panic, so that a defect in one driver does not affect the
//! host. The resources of the driver are released, the ledger says what is left of the sandbox, and
//! a new driver continues with that.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt;
use pandastack_kit::outlived;
use pandastack_model::{Fault, SandboxId, SandboxState};
use pandastack_wire_fleet::HostEvent;
use tokio::sync::{broadcast, mpsc, watch};

use crate::{
    audit::SandboxTable,
    host::{REQUESTS_MAX, SandboxEntry},
    ledger::{SandboxRecord, SandboxRow},
    recover::RecoveryPlan,
    sandbox::{Assignment, DriverStart, HostContext, PublishedState, RemovalRequests, StandbyPool, drive},
};

/// Maximum drivers of one sandbox. After the last panic it has no driver, and the audit reports it.
const DRIVERS_MAX: usize = 3;

const REASON: &str = "the machine was ended because of an internal error of the host";

/// Supervises the drivers of one sandbox.
pub(crate) struct Supervisor {
    pub context: Arc<HostContext>,
    pub standby: Arc<StandbyPool>,
    pub events: broadcast::Sender<HostEvent>,
    pub table: SandboxTable,
}

impl Supervisor {
    /// Drives a sandbox to its end, with a new driver after each panic, and removes it from the
    /// table.
    pub async fn serve(self, assignment: Assignment, tell: watch::Sender<PublishedState>) {
        let (id, mut assignment) = (assignment.id, assignment);
        let mut fault = None;
        for _ in 0..DRIVERS_MAX {
            let driving = drive(self.context.clone(), self.standby.clone(), assignment, &tell, self.events.clone());
            let (ended, held) = outlived(AssertUnwindSafe(driving).catch_unwind()).await;
            if let Ok(ended) = ended {
                fault = ended.err();
                break;
            }
            tracing::error!(sandbox = %id, "the driver task of a sandbox panicked");
            // The link of a stopped machine stays silent instead of breaking. Close it, so that
            // callers stop waiting on it.
            let session = tell.borrow().session.clone();
            if let Some(session) = session {
                session.close();
            }
            for undo in held {
                undo.unwind().await;
            }
            fault = Some(Fault::bug("the driver task of a sandbox panicked"));
            let Some((row, start)) = self.what_is_left(id).await else { break };
            assignment = self.appoint(row, start, &tell);
        }
        // Removed from the table first: a caller that hears of the end must not find the sandbox.
        self.table.lock().expect("no holder panics").remove(&id);
        if let Some(fault) = fault {
            tell.send_modify(|now| now.refused = Some(fault));
        }
    }

    /// Reads the ledger line of a sandbox whose machine is gone, and records its new state.
    async fn what_is_left(&self, id: SandboxId) -> Option<(SandboxRow, DriverStart)> {
        let context = &self.context;
        let read = context.ledger.sandboxes().await;
        let rows =
            read.inspect_err(|error| tracing::error!(sandbox = %id, %error, "could not read the ledger")).ok()?;
        let row = rows.into_iter().find(|row| row.id == id)?;
        let plan = RecoveryPlan::of(vec![row], Vec::new());
        if let Some(row) = plan.asleep.into_iter().next() {
            let layer = row.record.layer?;
            return Some((row, DriverStart::Asleep(layer)));
        }
        if let Err(fault) = context.volumes.release(id).await {
            tracing::error!(sandbox = %id, %fault, "could not release the volumes of a sandbox");
        }
        let left = match plan.failed.into_iter().next() {
            Some((row, _)) => {
                let reason = match &row.record.state {
                    SandboxState::Failed { reason } => reason.clone(),
                    _ => REASON.to_owned(),
                };
                let state = SandboxState::Failed { reason: reason.clone() };
                let record = SandboxRecord { state, layer: None, secret: None };
                (context.ledger.record(id, &record).await, Some((row, DriverStart::Failed(reason))))
            }
            // Its create or its removal was not finished.
            None => {
                let consoles = context.consoles.clone();
                let _ = context.scope.block("forget console", move || consoles.forget(id)).await;
                (context.ledger.sandbox_gone(id).await, None)
            }
        };
        if let Err(error) = left.0 {
            tracing::error!(sandbox = %id, %error, "could not write a ledger line");
        }
        context.collect_layers().await;
        left.1
    }

    /// Registers a new driver in the table, and publishes the state that it starts from.
    fn appoint(&self, row: SandboxRow, start: DriverStart, tell: &watch::Sender<PublishedState>) -> Assignment {
        let SandboxRow { id, generation, spec, .. } = row;
        let (requests, rx) = mpsc::channel(REQUESTS_MAX);
        let given_up = RemovalRequests::new(self.context.scope.token());
        let entry = SandboxEntry { condition: tell.subscribe(), requests, given_up: given_up.clone() };
        self.table.lock().expect("no holder panics").insert(id, entry);
        tell.send_modify(|now| start.describe(now));
        if let DriverStart::Failed(reason) = &start {
            let _ = self.events.send(HostEvent::Failed { id, reason: reason.clone() });
        }
        Assignment { id, generation, spec, start, requests: rx, here: None, given_up }
    }
}
