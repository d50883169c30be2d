//! The heartbeat of usage: confirms at an interval which sandboxes still have their machines.

use std::sync::Arc;

use pandastack_model::{SandboxId, SandboxState};

use crate::{audit::SandboxTable, sandbox::HostContext};

/// Confirms usage until the host closes.
pub async fn repeat(context: Arc<HostContext>, driven: SandboxTable) {
    let token = context.scope.token();
    loop {
        tokio::select! {
            () = tokio::time::sleep(context.settings.heartbeat_every) => {}
            () = token.cancelled() => return,
        }
        beat(&context, &living(&driven)).await;
    }
}

/// Confirms the usage of these sandboxes. A failure costs the host nothing but this confirmation.
pub async fn beat(context: &HostContext, living: &[SandboxId]) {
    if let Err(error) = context.ledger.heartbeat(living).await {
        tracing::warn!(%error, "could not confirm the usage of machines; the next heartbeat tries again");
    }
}

/// Lists the sandboxes that have a machine now. The ledger may still name one that has died.
pub fn living(driven: &SandboxTable) -> Vec<SandboxId> {
    let driven = driven.lock().expect("no holder panics");
    let has_machine = |state: &SandboxState| match state {
        SandboxState::Running | SandboxState::Paused | SandboxState::FallingAsleep => true,
        SandboxState::Creating
        | SandboxState::Asleep
        | SandboxState::Waking
        | SandboxState::Stopping
        | SandboxState::Failed { .. } => false,
    };
    driven.iter().filter(|(_, entry)| has_machine(&entry.condition.borrow().view.state)).map(|(id, _)| *id).collect()
}
