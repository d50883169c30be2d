//! Records how to release each resource as it is acquired; one path releases all of them in
//! reverse. A panic takes the same path if [`outlived`] runs the work.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

tokio::task_local! {
    /// Receives the lists that a panic drops.
    static OUTLIVED: Arc<Mutex<Vec<Undo>>>;
}

type Release = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A list of releases. Dropping a list with entries is a bug and is logged.
#[derive(Default)]
pub struct Undo {
    releases: Vec<(&'static str, Release)>,
}

impl Undo {
    /// Makes an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a release under a name for the log.
    pub fn hold<F, W>(&mut self, name: &'static str, release: F)
    where
        F: FnOnce() -> W + Send + Sync + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        self.releases.push((name, Box::new(move || Box::pin(release()))));
    }

    /// Appends another list. Its entries are released before those already here.
    pub fn absorb(&mut self, mut other: Undo) {
        self.releases.append(&mut other.releases);
    }

    /// Releases everything, last acquired first.
    pub async fn unwind(mut self) {
        while let Some((name, release)) = self.releases.pop() {
            tracing::trace!(resource = name, "release");
            release().await;
        }
    }

    /// Drops the list without releasing. Another owner has the resources now, such as the recovery
    /// of the next start.
    pub fn forget(mut self) {
        self.releases.clear();
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if self.releases.is_empty() {
            return;
        }
        let names: Vec<_> = self.releases.iter().map(|(name, _)| *name).collect();
        let left = Undo { releases: mem::take(&mut self.releases) };
        if let Err(mut left) = left.hand_over() {
            left.releases.clear();
            tracing::error!(?names, "resources were dropped without being released");
        }
    }
}

impl Undo {
    /// During a panic, passes the list to the enclosing [`outlived`], if there is one.
    fn hand_over(self) -> Result<(), Undo> {
        let mut left = Some(self);
        if std::thread::panicking() {
            let _ = OUTLIVED.try_with(|lists| {
                lists.lock().unwrap_or_else(PoisonError::into_inner).extend(left.take());
            });
        }
        left.map_or(Ok(()), Err)
    }
}

/// Runs work that catches its own panic. Returns its outcome and the lists that a panic dropped,
/// last acquired first: the caller must release them.
pub async fn outlived<F: Future>(work: F) -> (F::Output, Vec<Undo>) {
    let lists = Arc::new(Mutex::new(Vec::new()));
    let outcome = OUTLIVED.scope(lists.clone(), work).await;
    let left = mem::take(&mut *lists.lock().unwrap_or_else(PoisonError::into_inner));
    (outcome, left)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn releases_in_reverse() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut undo = Undo::new();
        for number in 1..=3 {
            let order = order.clone();
            undo.hold("number", move || async move { order.lock().unwrap().push(number) });
        }
        undo.unwind().await;
        assert_eq!(*order.lock().unwrap(), [3, 2, 1]);
    }

    /// Makes a list whose release records the number.
    fn noted(number: u32, order: &Arc<Mutex<Vec<u32>>>) -> Undo {
        let (mut undo, order) = (Undo::new(), order.clone());
        undo.hold("number", move || async move { order.lock().unwrap().push(number) });
        undo
    }

    /// Polls work until it ends or panics, as a task does.
    async fn caught(work: impl Future<Output = ()> + Send + 'static) -> (bool, Vec<Undo>) {
        let mut work = Box::pin(work);
        let poll = |context: &mut std::task::Context<'_>| {
            let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work.as_mut().poll(context)));
            polled.map_or(std::task::Poll::Ready(true), |polled| polled.map(|()| false))
        };
        outlived(std::future::poll_fn(poll)).await
    }

    #[tokio::test]
    async fn what_a_panic_drops_comes_back_innermost_first() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let (outer, inner) = (noted(1, &order), noted(2, &order));
        let work = async move {
            let _outer = outer;
            let deeper = async move {
                let _inner = inner;
                tokio::task::yield_now().await;
                panic!("on purpose");
            };
            deeper.await
        };
        let (panicked, left) = caught(work).await;
        assert_eq!((panicked, left.len()), (true, 2));
        for undo in left {
            undo.unwind().await;
        }
        assert_eq!(*order.lock().unwrap(), [2, 1]);
    }

    #[tokio::test]
    async fn only_a_panic_hands_over() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let undo = noted(1, &order);
        let (panicked, left) = caught(async move { drop(undo) }).await;
        assert_eq!((panicked, left.len()), (false, 0), "a list that is dropped otherwise is a defect, and logged");
    }
}
