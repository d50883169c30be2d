//! Records the host's events. Apart from deletes and undone creates, only this task changes the
//! state of a row after its sandbox has started.

use pandastack_kit::trace::{self, Trace, TracePosition};
use pandastack_model::{EventKind, SandboxId, SandboxState};
use pandastack_wire_fleet::{HostEvent, RemovedBy, SandboxView};
use serde_json::json;
use tokio::sync::{
    broadcast::{self, error::RecvError},
    mpsc,
};

use super::catch_up;
use crate::{
    Control,
    app::ReconcileRequest,
    limits::DELETED_REMEMBERED,
    store::{HostReport, StoreError},
};

/// Follows the host's events, and requests to refresh one sandbox, until shutdown.
pub async fn listen(
    control: Control,
    mut events: broadcast::Receiver<HostEvent>,
    mut unreconciled: mpsc::Receiver<ReconcileRequest>,
) {
    let token = control.scope.token();
    loop {
        // Check for shutdown first: a host that closes removes its machines, and that must not
        // delete any sandbox.
        let written = tokio::select! {
            biased;
            () = token.cancelled() => return,
            event = events.recv() => match event {
                Ok(event) => trace::within(cause(&event), apply(&control, event)).await,
                Err(RecvError::Lagged(_)) => {
                    tracing::warn!("missed events of the host; comparing all sandboxes");
                    catch_up(&control).await
                }
                Err(RecvError::Closed) => return,
            },
            Some(reconcile) = unreconciled.recv() => look(&control, reconcile).await,
        };
        if let Err(error) = written {
            tracing::error!(%error, cause = ?std::error::Error::source(&error), "could not record a host event");
        }
    }
}

/// Returns the trace of the request that caused an event.
fn cause(event: &HostEvent) -> Option<TracePosition> {
    match event {
        HostEvent::Changed { cause, .. } | HostEvent::Removed { cause, .. } => {
            Some(TracePosition::silent(Trace::parse(cause.as_deref()?)?))
        }
        HostEvent::Failed { .. } | HostEvent::Denied { .. } => None,
    }
}

async fn apply(control: &Control, event: HostEvent) -> Result<(), StoreError> {
    match event {
        HostEvent::Failed { id, reason } => {
            tracing::info!(sandbox = %id, %reason, "sandbox failed");
            control.store.mark_failed(id, &reason, control.clock.now_ns()).await
        }
        HostEvent::Changed { view, cause: _ } => {
            // The row gets the current state, because a request may have changed the sandbox since
            // the event. The announced event keeps its own state; later changes have their own.
            let now = control.host.observe(view.id).await;
            write_state(control, now.as_ref().unwrap_or(&view), &view.state).await
        }
        HostEvent::Denied { id, target } => {
            control.tell(id, EventKind::EgressDenied, json!({ "target": target })).await
        }
        HostEvent::Removed { id, why, cause: _ } => {
            if is_rebuilt(control, id).await? {
                return Ok(());
            }
            tracing::info!(sandbox = %id, ?why, "sandbox removed");
            let reason = match why {
                RemovedBy::Request => "request",
                RemovedBy::Idleness => "idle",
            };
            delete_sandbox(control, id, Some(reason)).await
        }
    }
}

/// Whether only the machine was removed: a database gets another one. What is really deleted says
/// so first.
async fn is_rebuilt(control: &Control, id: SandboxId) -> Result<bool, StoreError> {
    if control.store.any_database(id).await?.is_none() {
        return Ok(false);
    }
    Ok(!matches!(control.store.any_state(id).await?, None | Some(SandboxState::Stopping)))
}

async fn look(control: &Control, reconcile: ReconcileRequest) -> Result<(), StoreError> {
    let ReconcileRequest { id, done, here } = reconcile;
    let written = trace::within(here, refresh(control, id)).await;
    // The caller may have stopped waiting.
    let _ = done.map(|done| done.send(()));
    written
}

async fn refresh(control: &Control, id: SandboxId) -> Result<(), StoreError> {
    match control.host.observe(id).await {
        Some(view) => write_state(control, &view, &view.state).await,
        // The sandbox is being removed, which has an event of its own.
        None => Ok(()),
    }
}

/// Records the state that the host reports, and announces the event of the state `told`. Does
/// nothing while a sandbox is created or stopped.
pub(super) async fn write_state(control: &Control, view: &SandboxView, told: &SandboxState) -> Result<(), StoreError> {
    match view.state {
        SandboxState::Creating | SandboxState::Stopping => Ok(()),
        SandboxState::Running
        | SandboxState::Paused
        | SandboxState::FallingAsleep
        | SandboxState::Asleep
        | SandboxState::Waking
        | SandboxState::Failed { .. } => {
            let kind = control.store.mark_state(HostReport { view, told, at_ns: control.clock.now_ns() }).await?;
            if kind == Some(EventKind::Hibernated) {
                control.usage.meters.hibernated();
            }
            if kind == Some(EventKind::Woken)
                && let Some((workspace, template)) = control.store.owner(view.id).await?
            {
                control.booted(&workspace, &template, view);
            }
            Ok(())
        }
    }
}

/// Removes the row of a sandbox that is gone.
pub(super) async fn delete_sandbox(
    control: &Control,
    id: SandboxId,
    reason: Option<&'static str>,
) -> Result<(), StoreError> {
    let now_ns = control.clock.now_ns();
    let since_ns = now_ns.saturating_sub(DELETED_REMEMBERED.as_nanos() as u64);
    control.store.delete_sandbox(id, (now_ns, since_ns), reason).await?;
    // Not here: the events of other sandboxes wait for this one.
    control.remove_abandoned_volumes_soon();
    Ok(())
}
