//! Handles a guest that writes to its root disk while the host's disk is full. QEMU stops the
//! machine and keeps the write; this file resumes it periodically until there is space. An error
//! instead would look like a broken disk to the guest's file system.
//!
//! All other pauses and resumes go through here too, so a retry never resumes a paused machine.

use std::sync::{Arc, Weak};

use pandastack_kit::Scope;
use pandastack_model::MachineId;
use pandastack_vmm::{MachineError, Power};
use serde_json::{Value, json};
use tokio::sync::{
    Mutex,
    broadcast::{Receiver, error::RecvError},
    watch,
};

use crate::{
    limits::ROOM_POLL,
    qmp::{Qmp, QmpEvent},
};

/// Stops and starts a machine's CPUs.
#[derive(Clone)]
pub struct CpuSwitch {
    qmp: Arc<Qmp>,
    /// The power state that was requested last.
    wanted: Arc<Mutex<Power>>,
    went_on: watch::Receiver<u64>,
}

impl CpuSwitch {
    /// Watches a machine as long as its monitor is in use. `power` is its current state.
    pub fn new(id: MachineId, qmp: Arc<Qmp>, power: Power, scope: &Scope) -> Self {
        let wanted = if power == Power::Paused { Power::Paused } else { Power::Running };
        let wanted = Arc::new(Mutex::new(wanted));
        let (tell, went_on) = watch::channel(0);
        let watcher = SpaceWatcher { events: qmp.events(), qmp: Arc::downgrade(&qmp), wanted: wanted.clone() };
        let token = scope.token();
        scope.start("room", async move {
            tokio::select! {
                () = watcher.watch(id, tell) => {}
                () = token.cancelled() => {}
            }
        });
        Self { qmp, wanted, went_on }
    }

    /// Starts the CPUs.
    pub async fn resume(&self) -> Result<(), MachineError> {
        self.ask("cont", Power::Running).await
    }

    /// Stops the CPUs.
    pub async fn pause(&self) -> Result<(), MachineError> {
        self.ask("stop", Power::Paused).await
    }

    /// Counts how often the machine continued after it had waited for disk space.
    pub fn went_on(&self) -> watch::Receiver<u64> {
        self.went_on.clone()
    }

    async fn ask(&self, command: &str, power: Power) -> Result<(), MachineError> {
        let mut wanted = self.wanted.lock().await;
        self.qmp.execute(command, json!({})).await?;
        *wanted = power;
        Ok(())
    }
}

/// How a wait for disk space ended.
enum SpaceWaitEnd {
    WentOn,
    /// A pause was requested. After the next resume the guest meets the full disk again.
    Paused,
    /// The machine is gone.
    Over,
}

struct SpaceWatcher {
    events: Receiver<QmpEvent>,
    qmp: Weak<Qmp>,
    wanted: Arc<Mutex<Power>>,
}

impl SpaceWatcher {
    async fn watch(mut self, id: MachineId, went_on: watch::Sender<u64>) {
        // It may have been stopped earlier, under an earlier process of the host.
        let Some(qmp) = self.qmp.upgrade() else { return };
        let mut waits = qmp.execute("query-status", json!({})).await.is_ok_and(|status| is_stopped_for_room(&status));
        drop(qmp);
        loop {
            if !waits && !self.is_out_of_room().await {
                return;
            }
            waits = false;
            tracing::warn!(machine = %id, "a guest is paused: the host's disk may be full");
            match self.wait_for_room().await {
                SpaceWaitEnd::WentOn => {
                    tracing::info!(machine = %id, "the disk has space again: the guest continues");
                    went_on.send_modify(|times| *times += 1);
                }
                SpaceWaitEnd::Paused => {}
                SpaceWaitEnd::Over => return,
            }
        }
    }

    /// Waits until the machine may have been stopped by a full disk. Lost events count as such a
    /// stop. Returns `false` if the machine is gone.
    async fn is_out_of_room(&mut self) -> bool {
        loop {
            match self.events.recv().await {
                Ok(event) if is_about_room(&event) => return true,
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => return true,
                Err(RecvError::Closed) => return false,
            }
        }
    }

    async fn wait_for_room(&mut self) -> SpaceWaitEnd {
        loop {
            tokio::time::sleep(ROOM_POLL).await;
            match self.try_again().await {
                Ok(true) => {}
                Ok(false) => return SpaceWaitEnd::Paused,
                Err(MachineError::Dead { .. } | MachineError::Io { .. }) => return SpaceWaitEnd::Over,
                // The host is loaded. Retry, or the guest waits forever.
                Err(_) => continue,
            }
            // If there is still no space, QEMU stops the machine again at its next write.
            match tokio::time::timeout(ROOM_POLL, self.is_out_of_room()).await {
                Ok(true) => {}
                Ok(false) => return SpaceWaitEnd::Over,
                Err(_) => return SpaceWaitEnd::WentOn,
            }
        }
    }

    /// Resumes the machine, unless a pause was requested.
    async fn try_again(&self) -> Result<bool, MachineError> {
        let gone = || MachineError::Dead { reason: "the machine is no longer in use".to_owned() };
        let qmp = self.qmp.upgrade().ok_or_else(gone)?;
        let wanted = self.wanted.lock().await;
        if *wanted == Power::Paused {
            return Ok(false);
        }
        qmp.execute("cont", json!({})).await?;
        Ok(true)
    }
}

/// Status `io-error` means that QEMU itself has stopped the machine.
pub fn is_stopped_for_room(status: &Value) -> bool {
    status["status"].as_str() == Some("io-error")
}

fn is_about_room(event: &QmpEvent) -> bool {
    let QmpEvent { name, data } = event;
    name == "BLOCK_IO_ERROR" && data["nospace"].as_bool() == Some(true) && data["action"].as_str() == Some("stop")
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
