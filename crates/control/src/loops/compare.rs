//! Compares what is wanted with what the host runs, and writes down the difference. Runs before any request is served.

use std::collections::HashMap;

use pandastack_model::SandboxState;

use crate::{
    Control,
    app::{observed, size},
    store::StoreError,
};

const GONE: &str = "its machine ended with an earlier run of the server";

/// Marks sandboxes whose machine is gone. A create that was cut off before its answer leaves nothing: nobody has its id.
pub async fn compare(control: &Control) -> Result<(), StoreError> {
    let seen: HashMap<_, _> = control.host.observe_all().await.into_iter().map(|view| (view.id, view)).collect();
    for (id, state) in control.store.all_states().await? {
        match (state, seen.get(&id)) {
            (SandboxState::Failed { .. }, None) => {}
            (SandboxState::Creating, None) => control.store.forget(id).await?,
            (_, None) => control.store.mark_failed(id, GONE).await?,
            (_, Some(view)) => match &view.state {
                SandboxState::Failed { reason } => control.store.mark_failed(id, reason).await?,
                SandboxState::Running => {
                    control.store.mark_running(id, size(view), &observed(view)).await?;
                }
                _ => {}
            },
        }
    }
    Ok(())
}

/// Marks only the sandboxes that the host itself calls failed. Safe while creates are under way.
pub async fn failures(control: &Control) -> Result<(), StoreError> {
    for view in control.host.observe_all().await {
        if let SandboxState::Failed { reason } = &view.state {
            control.store.mark_failed(view.id, reason).await?;
        }
    }
    Ok(())
}
