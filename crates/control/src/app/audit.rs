//! Asks the host to compare its actual state with its expected state.

use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{AuditReport, Caller, FIRST_WORKSPACE};

use crate::Control;

impl Control {
    /// Audits the host. Only the first workspace, which belongs to the operator, may do this: a
    /// report names resources of every tenant.
    pub(crate) async fn audit(&self, caller: &Caller) -> Result<AuditReport, Fault> {
        if caller.workspace.0 != FIRST_WORKSPACE {
            return Err(Fault::new(
                FaultKind::Missing,
                "route.not_found",
                "this route is only for the API keys of the operator",
            ));
        }
        self.host.audit().await
    }
}
