//! Reconciles the wanted sandboxes with those on the host. Runs in full before the first request is
//! served, and in a restricted form after events were missed.

use std::collections::{HashMap, HashSet};

use pandastack_model::{EventKind, SandboxId, SandboxState};
use pandastack_wire_fleet::SandboxView;
use serde_json::json;

use super::{
    lease::renew_host,
    listen::{delete_sandbox, write_state},
};
use crate::{
    Control,
    store::{RestoreMark, StoreError},
};

const GONE: &str = "the sandbox's machine no longer exists on the host";

/// Records in every row the state that the host reports. An interrupted create or fork is forgotten
/// if the host does not have the sandbox. An interrupted delete is finished. What the database
/// never knew is put aside.
pub async fn compare(control: &Control, restored: Option<&RestoreMark>) -> Result<(), StoreError> {
    let mut seen = seen(control).await;
    let rows = control.store.all_states().await?;
    let known: HashSet<SandboxId> = rows.iter().map(|(id, _)| *id).collect();
    let mut unknown: Vec<SandboxView> = seen.extract_if(|id, _| !known.contains(id)).map(|(_, view)| view).collect();
    unknown.sort_by_key(|view| view.id);
    control.put_unknown_aside(unknown, restored).await?;
    for (id, state) in rows {
        match (state, seen.get(&id)) {
            (SandboxState::Failed { .. }, None) => {}
            (SandboxState::Stopping, None) => delete_sandbox(control, id, Some("request")).await?,
            (SandboxState::Stopping, Some(_)) => match control.host.remove(id).await {
                Ok(()) => delete_sandbox(control, id, Some("request")).await?,
                Err(fault) => tracing::warn!(sandbox = %id, %fault, "could not finish an interrupted delete"),
            },
            (SandboxState::Creating, None) => {
                control.store.forget(id).await?;
                control.remove_abandoned_volumes().await;
            }
            (_, None) => {
                control.store.mark_failed(id, GONE, control.clock.now_ns()).await?;
                control.tell(id, EventKind::RecoveredOrphan, json!({ "reason": GONE })).await?;
            }
            (SandboxState::Creating, Some(view)) if view.state == SandboxState::Creating => {}
            (SandboxState::Creating, Some(view)) => {
                control.store.mark_running(view, control.clock.now_ns()).await?;
                write_state(control, view, &view.state).await?;
            }
            (_, Some(view)) => write_state(control, view, &view.state).await?,
        }
    }
    control.reapply_terms().await?;
    for view in seen.values() {
        if view.state == SandboxState::Asleep {
            control.tell(view.id, EventKind::RecoveredAsleep, json!({})).await?;
        }
    }
    Ok(())
}

/// Reconciles while requests are served. `creating` rows belong to the requests that create them,
/// and a sandbox that is missing on the host was removed.
pub async fn catch_up(control: &Control) -> Result<(), StoreError> {
    // After a long pause the rows may be those of another host's sandboxes.
    if !renew_host(control).await? {
        tracing::error!("another host has this database now; its sandboxes are left alone");
        return Ok(());
    }
    // Read the rows first: a sandbox that has a row and is not on the host afterwards was removed.
    let rows = control.store.all_states().await?;
    let seen = seen(control).await;
    for (id, state) in rows {
        match (state, seen.get(&id)) {
            (SandboxState::Creating | SandboxState::Failed { .. }, None) => {}
            // A database may be getting another machine. Its data must not go with the old one.
            (state, None) if state != SandboxState::Stopping && control.store.any_database(id).await?.is_some() => {
                if control.host.observe(id).await.is_none() {
                    control.store.mark_failed(id, GONE, control.clock.now_ns()).await?;
                }
            }
            (_, None) => delete_sandbox(control, id, None).await?,
            (_, Some(view)) => write_state(control, view, &view.state).await?,
        }
    }
    // In a task of its own: a slow change on the host would delay the events of all sandboxes.
    let terms = control.clone();
    control.scope.start("reapply terms", async move {
        if let Err(error) = terms.reapply_terms().await {
            tracing::error!(%error, "could not apply the terms of sandboxes");
        }
    });
    Ok(())
}

async fn seen(control: &Control) -> HashMap<SandboxId, SandboxView> {
    control.host.observe_all().await.into_iter().map(|view| (view.id, view)).collect()
}
