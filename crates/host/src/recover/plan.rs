//! Decides, from the ledger alone, what becomes of each sandbox and machine of an earlier run.
//! Pure.

use std::collections::HashSet;

use pandastack_model::{SandboxId, SandboxState};

use crate::ledger::{MachineRow, SandboxRow};

/// What to do with the sandboxes and machines of an earlier run.
#[derive(Debug, Default)]
pub struct RecoveryPlan {
    /// Sandboxes to take over, each with its machine.
    pub adopt: Vec<(SandboxRow, MachineRow)>,
    /// Sandboxes that sleep in a layer.
    pub asleep: Vec<SandboxRow>,
    /// Sandboxes that have failed, with the reason.
    pub failed: Vec<(SandboxRow, String)>,
    /// Sandboxes whose create or removal was not finished.
    pub forget: Vec<SandboxId>,
    /// Machines to end.
    pub end: Vec<MachineRow>,
}

const LOST: &str = "the machine ended while the host was not running";

impl RecoveryPlan {
    /// Decides about every ledger line.
    pub fn of(sandboxes: Vec<SandboxRow>, machines: Vec<MachineRow>) -> Self {
        let mut plan = RecoveryPlan::default();
        let mut machines = machines;
        for sandbox in sandboxes {
            match &sandbox.record.state {
                SandboxState::Creating | SandboxState::Stopping => plan.forget.push(sandbox.id),
                SandboxState::Failed { reason } => {
                    let reason = reason.clone();
                    plan.failed.push((sandbox, reason));
                }
                SandboxState::Asleep if sandbox.record.layer.is_some() => plan.asleep.push(sandbox),
                SandboxState::Running
                | SandboxState::Paused
                | SandboxState::FallingAsleep
                | SandboxState::Waking
                | SandboxState::Asleep => {
                    let at = machines.iter().position(|machine| machine.sandbox == Some(sandbox.id));
                    match at {
                        Some(at) if sandbox.record.secret.is_some() => plan.adopt.push((sandbox, machines.remove(at))),
                        _ => plan.failed.push((sandbox, LOST.to_owned())),
                    }
                }
            }
        }
        plan.end = machines;
        plan
    }

    /// Ids of the sandboxes that keep their volumes.
    pub fn kept_sandboxes(&self) -> HashSet<SandboxId> {
        let living = self.adopt.iter().map(|(sandbox, _)| sandbox.id);
        living.chain(self.asleep.iter().map(|sandbox| sandbox.id)).collect()
    }

    /// Ids of the sandboxes that exist after the start, failed ones included.
    pub fn all_sandboxes(&self) -> HashSet<SandboxId> {
        self.kept_sandboxes().into_iter().chain(self.failed.iter().map(|(sandbox, _)| sandbox.id)).collect()
    }

    /// Ids of the machines that stay.
    pub fn kept_machines(&self) -> HashSet<String> {
        self.adopt.iter().map(|(_, machine)| machine.id.to_string()).collect()
    }

    /// Names of the network slots that stay.
    pub fn kept_slots(&self) -> Vec<String> {
        self.adopt.iter().map(|(_, machine)| machine.slot.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use pandastack_model::{LayerId, MachineId, SandboxSpec};

    use super::*;
    use crate::ledger::SandboxRecord;

    fn sandbox(state: SandboxState, layer: Option<LayerId>) -> SandboxRow {
        let record = SandboxRecord { state, layer, secret: Some(vec![1]) };
        SandboxRow { id: SandboxId::random(), generation: 1, spec: SandboxSpec::of("mini".parse().unwrap()), record }
    }

    fn machine(sandbox: Option<SandboxId>) -> MachineRow {
        let (id, layer) = (MachineId::random(), LayerId::random());
        MachineRow { id, slot: format!("slot-{id}"), layer: Some(layer), pid: Some(1), sandbox }
    }

    #[test]
    fn a_running_sandbox_keeps_its_machine() {
        let row = sandbox(SandboxState::Running, None);
        let own = machine(Some(row.id));
        let plan = RecoveryPlan::of(vec![row], vec![machine(None), own.clone()]);
        assert_eq!(plan.adopt.len(), 1);
        assert_eq!(plan.kept_slots(), [own.slot]);
        assert_eq!(plan.end.len(), 1, "a machine that stood by is nobody's");
    }

    #[test]
    fn a_running_sandbox_without_a_machine_has_failed() {
        let plan = RecoveryPlan::of(vec![sandbox(SandboxState::Paused, None)], Vec::new());
        assert_eq!((plan.failed.len(), plan.adopt.len()), (1, 0));
    }

    #[test]
    fn half_a_wake_is_ended_and_the_sandbox_sleeps_on() {
        let row = sandbox(SandboxState::Asleep, Some(LayerId::random()));
        let half = machine(Some(row.id));
        let plan = RecoveryPlan::of(vec![row], vec![half]);
        assert_eq!((plan.asleep.len(), plan.end.len(), plan.adopt.len()), (1, 1, 0));
    }

    /// The line still names a layer, but the guest may have written to its volume since.
    #[test]
    fn a_wake_without_a_way_back_has_failed_with_its_machine() {
        let row = || sandbox(SandboxState::Waking, Some(LayerId::random()));
        let plan = RecoveryPlan::of(vec![row()], Vec::new());
        assert_eq!((plan.failed.len(), plan.asleep.len()), (1, 0));
        let row = row();
        let own = machine(Some(row.id));
        let plan = RecoveryPlan::of(vec![row], vec![own]);
        assert_eq!((plan.adopt.len(), plan.failed.len(), plan.asleep.len()), (1, 0, 0));
    }

    #[test]
    fn half_a_create_and_half_a_removal_leave_nothing() {
        for state in [SandboxState::Creating, SandboxState::Stopping] {
            let row = sandbox(state, None);
            let own = machine(Some(row.id));
            let plan = RecoveryPlan::of(vec![row], vec![own]);
            assert_eq!((plan.forget.len(), plan.end.len()), (1, 1));
        }
    }
}
