//! Owns a spare connection: one that has done the handshake and is otherwise unused. It is sealed
//! with the guest and is open in each copy, so that a copy's first message needs no new connection.
//!
//! ```text
//! running guest:  Spare::open ... pause, Spare::state, seal, resume     (the spare stays, for the next seal)
//! its copy:       restore, resume, take_up(state, rebirth)              -> Session
//! ```
//! The rebirth closes the guest's end of every other connection, so a copy never uses a stream of
//! its source.

use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use pandastack_kit::{Scope, Secret};
use pandastack_vmm::{LinkState, Machine, SealableLink};
use pandastack_wire_guest::Rebirth;
use tokio::sync::Semaphore;

use super::{
    limits::{SPARE_AFTER, SPARE_DEADLINE, SPARE_HURRY, SPARE_TRIES, TAKE_UP_PARTS},
    session::{GuestSession, LinkError, greet},
};

/// A spare connection of a running guest.
pub struct SpareConnection {
    link: Box<dyn SealableLink>,
}

impl SpareConnection {
    /// Connects, and does the handshake with the agent's current secret.
    pub async fn open(machine: &dyn Machine, secret: &[u8]) -> Result<Self, LinkError> {
        let mut link = machine.dial_kept().await.map_err(|error| LinkError::Io(std::io::Error::other(error)))?;
        let greeted = tokio::time::timeout(SPARE_DEADLINE, greet(&mut link, secret, &[])).await;
        greeted.map_err(|_| LinkError::Deadline)??;
        Ok(Self { link })
    }

    /// Returns the state that a copy's host needs to continue the connection. The guest must be
    /// paused, and sealed before it runs again. Returns `None` if the connection is lost or has
    /// data in flight. Copies then dial, which is slower.
    pub fn state(&self) -> Option<LinkState> {
        match self.link.state() {
            Ok(state) => Some(state),
            Err(error) => {
                tracing::debug!(%error, "could not save the state of the spare link");
                None
            }
        }
    }
}

/// Holds the spare connection of a running machine. It is filled some time after the start, and
/// again before a seal.
#[derive(Clone)]
pub struct SpareHolder {
    spare: Arc<Mutex<Option<SpareConnection>>>,
    /// Held while the connection is opened, so that a second caller waits instead of opening
    /// another one.
    turn: Arc<Semaphore>,
}

impl Default for SpareHolder {
    fn default() -> Self {
        Self { spare: Arc::default(), turn: Arc::new(Semaphore::new(1)) }
    }
}

impl SpareHolder {
    /// Fills the place after a delay, because the guest's first user comes first.
    pub fn fill_later(&self, machine: &Arc<dyn Machine>, secret: &Secret<Vec<u8>>, scope: &Scope) {
        let (place, token) = (self.clone(), scope.token());
        let (machine, secret) = (Arc::downgrade(machine), secret.clone());
        scope.start("spare link", async move {
            for _ in 0..SPARE_TRIES {
                tokio::select! {
                    () = tokio::time::sleep(SPARE_AFTER) => {}
                    () = token.cancelled() => return,
                }
                let Some(machine) = Weak::upgrade(&machine) else { return };
                place.fill(&*machine, &secret, SPARE_DEADLINE).await;
                if place.is_filled() {
                    return;
                }
            }
        });
    }

    /// Fills the place now, unless it is filled. Uses a short timeout, because a seal waits for
    /// this.
    pub async fn fill_quickly(&self, machine: &dyn Machine, secret: &Secret<Vec<u8>>) {
        self.fill(machine, secret, SPARE_HURRY).await;
    }

    async fn fill(&self, machine: &dyn Machine, secret: &Secret<Vec<u8>>, within: Duration) {
        let filled = tokio::time::timeout(within, async {
            let _turn = self.turn.acquire().await;
            if !self.is_filled() {
                let spare = SpareConnection::open(machine, secret.reveal()).await?;
                *self.spare.lock().expect("no holder panics") = Some(spare);
            }
            Ok::<(), LinkError>(())
        });
        match filled.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "could not open a spare link"),
            Err(_) => tracing::debug!("could not open a spare link in time"),
        }
    }

    /// Returns the state that a copy's host needs, if there is a connection. See
    /// [`SpareConnection::state`].
    pub fn state(&self) -> Option<LinkState> {
        self.spare.lock().expect("no holder panics").as_ref().and_then(SpareConnection::state)
    }

    /// Returns whether there is a usable connection. The guest may have closed it.
    fn is_filled(&self) -> bool {
        self.state().is_some()
    }
}

/// Continues a sealed connection in a machine that was just resumed, and sends the rebirth on it.
/// After an error or a timeout the guest's state is unknown: it may have been reborn, and then it
/// accepts only the new secret.
pub async fn take_up(
    machine: &dyn Machine,
    state: &LinkState,
    rebirth: &Rebirth,
    scope: &Scope,
    launch_deadline: Duration,
) -> Result<GuestSession, LinkError> {
    let taken_up = async {
        let link = machine.take_up(state).await.map_err(|error| LinkError::Io(std::io::Error::other(error)))?;
        GuestSession::resume(link, rebirth, scope).await
    };
    tokio::time::timeout(launch_deadline / TAKE_UP_PARTS, taken_up).await.map_err(|_| LinkError::Deadline)?
}
