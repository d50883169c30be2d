//! Turns network denials of a slot into events of the sandbox that has the slot.

use std::sync::Arc;

use pandastack_wire_fleet::HostEvent;
use tokio::sync::broadcast::{Sender, error::RecvError};

use crate::{net::Denial, sandbox::HostContext};

/// Forwards denials until the host closes. A flood may lose some: they are for people, and repeat.
pub async fn pass_on(context: Arc<HostContext>, events: Sender<HostEvent>) {
    let (token, mut denials) = (context.scope.token(), context.net.denials());
    loop {
        let denial = tokio::select! {
            denial = denials.recv() => denial,
            () = token.cancelled() => return,
        };
        match denial {
            Ok(Denial { slot, target }) => {
                // Denials are rare and rate-limited, so one query of the ledger for each is cheap
                // enough.
                let machines = context.ledger.machines().await.unwrap_or_default();
                let owner = machines.into_iter().find(|machine| machine.slot == slot);
                if let Some(id) = owner.and_then(|machine| machine.sandbox) {
                    tracing::info!(sandbox = %id, target, "egress denied");
                    let _ = events.send(HostEvent::Denied { id, target });
                }
            }
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}
