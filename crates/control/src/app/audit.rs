//! Asks the host to compare what it has with what it should have.

use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{AuditReport, Caller};

use super::bootstrap::FIRST_WORKSPACE;
use crate::Control;

impl Control {
    /// Audits the host. Only for the first workspace, which is its operator's: a report names
    /// things of every tenant.
    pub(crate) async fn audit(&self, caller: &Caller) -> Result<AuditReport, Fault> {
        if caller.workspace.0 != FIRST_WORKSPACE {
            return Err(Fault::new(FaultKind::Missing, "route.not_found", "no such route for this key"));
        }
        self.host.audit().await
    }
}
