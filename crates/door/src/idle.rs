//! Connections that wait for a request, the longest wait first. One of them can be closed when
//! another connection needs its place. A connection with a request in progress is never closed.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::body::Body;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::held::hold;

/// All waiting connections. Clones share the same state.
#[derive(Clone, Default)]
pub struct IdleConnections(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    one_more: Notify,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// Ordered by the start of their wait.
    by_age: BTreeMap<u64, CancellationToken>,
}

impl IdleConnections {
    /// Registers a new connection, which waits for its first request.
    pub fn seat(&self) -> IdleRegistration {
        let place = Arc::new(RegisteredConnection {
            idle: self.clone(),
            given_up: CancellationToken::new(),
            at: Mutex::new(ConnectionState::Busy),
        });
        place.wait();
        IdleRegistration(place)
    }

    /// Closes the connection that has waited longest. If none waits, waits for one.
    pub async fn close_oldest(&self) {
        loop {
            let one_more = self.0.one_more.notified();
            let oldest = locked(&self.0.waiting).by_age.pop_first();
            if let Some((_, token)) = oldest {
                return token.cancel();
            }
            one_more.await;
        }
    }
}

/// One connection's registration. Dropped with the connection.
pub struct IdleRegistration(Arc<RegisteredConnection>);

struct RegisteredConnection {
    idle: IdleConnections,
    given_up: CancellationToken,
    at: Mutex<ConnectionState>,
}

/// State of a connection.
enum ConnectionState {
    /// Waits for a request, under this number.
    Waiting(u64),
    Busy,
    /// Has ended. Its last answer may not be dropped yet.
    Gone,
}

impl IdleRegistration {
    /// Token that is cancelled when the connection has to close.
    pub fn given_up(&self) -> CancellationToken {
        self.0.given_up.clone()
    }

    /// Marks the connection as busy until the returned value is dropped.
    pub fn busy(&self) -> BusyRequest {
        self.0.leave(ConnectionState::Busy);
        BusyRequest(self.0.clone())
    }
}

impl Drop for IdleRegistration {
    fn drop(&mut self) {
        self.0.leave(ConnectionState::Gone);
    }
}

impl RegisteredConnection {
    fn wait(&self) {
        {
            let (mut waiting, mut at) = (locked(&self.idle.0.waiting), locked(&self.at));
            if matches!(*at, ConnectionState::Gone) {
                return;
            }
            waiting.next += 1;
            let number = waiting.next;
            waiting.by_age.insert(number, self.given_up.clone());
            *at = ConnectionState::Waiting(number);
        }
        self.idle.0.one_more.notify_one();
    }

    fn leave(&self, to: ConnectionState) {
        let (mut waiting, mut at) = (locked(&self.idle.0.waiting), locked(&self.at));
        if let ConnectionState::Waiting(number) = std::mem::replace(&mut *at, to) {
            waiting.by_age.remove(&number);
        }
    }
}

/// A request in progress.
pub struct BusyRequest(Arc<RegisteredConnection>);

impl BusyRequest {
    /// Stays busy until a body is sent or dropped.
    pub fn hold(self, body: Body) -> Body {
        hold(body, self)
    }
}

impl Drop for BusyRequest {
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// Locks a value. Every change to it is one step, so a panic cannot have left it inconsistent.
fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_longest_wait_goes_first_and_the_busy_never() {
        let idle = IdleConnections::default();
        let [first, second, third] = [idle.seat(), idle.seat(), idle.seat()];
        let busy = first.busy();
        idle.close_oldest().now_or_never().unwrap();
        let gone = || [&first, &second, &third].map(|seat| seat.given_up().is_cancelled());
        assert_eq!(gone(), [false, true, false]);
        drop(third);
        assert!(idle.close_oldest().now_or_never().is_none(), "a busy one is not given up");
        drop(busy);
        idle.close_oldest().now_or_never().unwrap();
        assert!(first.given_up().is_cancelled());
    }

    #[test]
    fn a_connection_that_ended_before_its_answer_leaves_nothing() {
        let idle = IdleConnections::default();
        let seat = idle.seat();
        let busy = seat.busy();
        drop(seat);
        drop(busy);
        assert!(locked(&idle.0.waiting).by_age.is_empty());
    }

    #[tokio::test]
    async fn whoever_waits_for_a_place_gets_the_first_that_falls_idle() {
        let idle = IdleConnections::default();
        let seat = idle.seat();
        let busy = seat.busy();
        tokio::join!(idle.close_oldest(), async { drop(busy) });
        assert!(seat.given_up().is_cancelled());
    }
}
