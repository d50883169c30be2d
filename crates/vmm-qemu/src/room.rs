//! What happens to a guest that writes to its root disk while the host has no room for it. QEMU stops the machine and keeps the
//! write; the guest knows nothing. Here it is told to go on from time to time, until there is room. An error instead would reach
//! a file system that takes it for a broken disk.
//!
//! Pausing and going on for other reasons passes through here as well: nobody may go on while somebody else wants it to stand still.

use std::sync::{Arc, Weak};

use pandastack_kit::Scope;
use pandastack_model::MachineId;
use pandastack_vmm::{MachineError, Power};
use serde_json::{Value, json};
use tokio::sync::{
    Mutex,
    broadcast::{Receiver, error::RecvError},
};

use crate::{
    limits::ROOM_POLL,
    qmp::{Event, Qmp},
};

/// Stops and starts a machine's CPUs.
#[derive(Clone)]
pub struct Switch {
    qmp: Arc<Qmp>,
    /// What was asked for last.
    wanted: Arc<Mutex<Power>>,
}

impl Switch {
    /// Watches a machine that does as asked now, for as long as somebody has it.
    pub fn new(id: MachineId, qmp: Arc<Qmp>, wanted: Power, scope: &Scope) -> Self {
        let switch = Self { qmp, wanted: Arc::new(Mutex::new(wanted)) };
        let (events, qmp) = (switch.qmp.events(), Arc::downgrade(&switch.qmp));
        let (token, wanted) = (scope.token(), switch.wanted.clone());
        scope.start("room", async move {
            tokio::select! {
                () = watch(id, events, qmp, wanted) => {}
                () = token.cancelled() => {}
            }
        });
        switch
    }

    /// Starts the CPUs.
    pub async fn resume(&self) -> Result<(), MachineError> {
        self.ask("cont", Power::Running).await
    }

    /// Stops the CPUs.
    pub async fn pause(&self) -> Result<(), MachineError> {
        self.ask("stop", Power::Paused).await
    }

    async fn ask(&self, command: &str, power: Power) -> Result<(), MachineError> {
        let mut wanted = self.wanted.lock().await;
        self.qmp.execute(command, json!({})).await?;
        *wanted = power;
        Ok(())
    }
}

async fn watch(id: MachineId, mut events: Receiver<Event>, qmp: Weak<Qmp>, wanted: Arc<Mutex<Power>>) {
    // It may have been stopped before we watched it, under an earlier process of the host.
    let mut waits = match qmp.upgrade() {
        Some(qmp) => qmp.execute("query-status", json!({})).await.is_ok_and(|status| is_stopped_for_room(&status)),
        None => return,
    };
    loop {
        while !waits {
            waits = match events.recv().await {
                Ok(event) => is_about_room(&event),
                // What was missed may have been that.
                Err(RecvError::Lagged(_)) => true,
                Err(RecvError::Closed) => return,
            };
        }
        tracing::warn!(machine = %id, "a guest waits: there may be no room left on the host's disk");
        tokio::time::sleep(ROOM_POLL).await;
        let Some(qmp) = qmp.upgrade() else { return };
        let wanted = wanted.lock().await;
        waits = match *wanted {
            Power::Paused => false,
            Power::Running => match qmp.execute("cont", json!({})).await {
                Ok(_) => false,
                Err(MachineError::Dead { .. } | MachineError::Io { .. }) => return,
                // A loaded host; a guest that is not told waits for ever.
                Err(_) => true,
            },
        };
    }
}

/// A status of `io-error` is that of a machine that QEMU itself has stopped.
pub fn is_stopped_for_room(status: &Value) -> bool {
    status["status"].as_str() == Some("io-error")
}

fn is_about_room(event: &Event) -> bool {
    let Event { name, data } = event;
    name == "BLOCK_IO_ERROR" && data["nospace"].as_bool() == Some(true) && data["action"].as_str() == Some("stop")
}
