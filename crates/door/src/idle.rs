//! Connections that wait for a request, the longest wait first. One of them can be given up when
//! another needs its place; a connection whose request is under way never is.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::body::Body;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::held::hold;

/// All connections that wait. Clones are the same.
#[derive(Clone, Default)]
pub struct Idle(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    one_more: Notify,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// By when they began to wait.
    by_age: BTreeMap<u64, CancellationToken>,
}

impl Idle {
    /// Takes a new connection in: it waits for its first request.
    pub fn seat(&self) -> Seat {
        let place =
            Arc::new(Place { idle: self.clone(), given_up: CancellationToken::new(), at: Mutex::new(At::Busy) });
        place.wait();
        Seat(place)
    }

    /// Gives up the connection that has waited longest; waits for one if there is none.
    pub async fn give_one_up(&self) {
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

/// One connection's place among the others. Dropped with it.
pub struct Seat(Arc<Place>);

struct Place {
    idle: Idle,
    given_up: CancellationToken,
    at: Mutex<At>,
}

/// What a connection does.
enum At {
    /// Waits for a request, under this number.
    Waiting(u64),
    Busy,
    /// Has ended. Its last answer may still be on its way to being dropped.
    Gone,
}

impl Seat {
    /// Tells when the connection has to go.
    pub fn given_up(&self) -> CancellationToken {
        self.0.given_up.clone()
    }

    /// Marks the connection as one with a request under way, until what this gives is dropped.
    pub fn busy(&self) -> Busy {
        self.0.leave(At::Busy);
        Busy(self.0.clone())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.leave(At::Gone);
    }
}

impl Place {
    fn wait(&self) {
        {
            let (mut waiting, mut at) = (locked(&self.idle.0.waiting), locked(&self.at));
            if matches!(*at, At::Gone) {
                return;
            }
            waiting.next += 1;
            let number = waiting.next;
            waiting.by_age.insert(number, self.given_up.clone());
            *at = At::Waiting(number);
        }
        self.idle.0.one_more.notify_one();
    }

    fn leave(&self, to: At) {
        let (mut waiting, mut at) = (locked(&self.idle.0.waiting), locked(&self.at));
        if let At::Waiting(number) = std::mem::replace(&mut *at, to) {
            waiting.by_age.remove(&number);
        }
    }
}

/// A request under way.
pub struct Busy(Arc<Place>);

impl Busy {
    /// Stays busy until a body is sent or given up.
    pub fn hold(self, body: Body) -> Body {
        hold(body, self)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// Locks a value whose every change is one step, so that a panic elsewhere cannot have left it half
/// done.
fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_longest_wait_goes_first_and_the_busy_never() {
        let idle = Idle::default();
        let [first, second, third] = [idle.seat(), idle.seat(), idle.seat()];
        let busy = first.busy();
        idle.give_one_up().now_or_never().unwrap();
        let gone = || [&first, &second, &third].map(|seat| seat.given_up().is_cancelled());
        assert_eq!(gone(), [false, true, false]);
        drop(third);
        assert!(idle.give_one_up().now_or_never().is_none(), "a busy one is not given up");
        drop(busy);
        idle.give_one_up().now_or_never().unwrap();
        assert!(first.given_up().is_cancelled());
    }

    #[test]
    fn a_connection_that_ended_before_its_answer_leaves_nothing() {
        let idle = Idle::default();
        let seat = idle.seat();
        let busy = seat.busy();
        drop(seat);
        drop(busy);
        assert!(locked(&idle.0.waiting).by_age.is_empty());
    }

    #[tokio::test]
    async fn whoever_waits_for_a_place_gets_the_first_that_falls_idle() {
        let idle = Idle::default();
        let seat = idle.seat();
        let busy = seat.busy();
        tokio::join!(idle.give_one_up(), async { drop(busy) });
        assert!(seat.given_up().is_cancelled());
    }
}
