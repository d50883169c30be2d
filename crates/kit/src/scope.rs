//! Named tasks that are counted, cancelled by request and awaited at shutdown. The only place that
//! spawns.

use std::{future::Future, time::Duration};

use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

use crate::trace;

/// Work that did not come back with a value.
#[derive(Debug, thiserror::Error)]
pub enum ScopeError {
    #[error("task {name} panicked")]
    Panicked { name: &'static str },
    #[error("task {name} was ended by shutdown")]
    Cancelled { name: &'static str },
}

/// A family of tasks. Clones are the same family.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    tracker: TaskTracker,
    token: CancellationToken,
}

impl Scope {
    /// Makes an empty scope.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the token that tasks watch to learn that they should end.
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Makes a scope whose tasks are told to end with this one's, and are awaited by it.
    pub fn child(&self) -> Scope {
        Scope { tracker: self.tracker.clone(), token: self.token.child_token() }
    }

    /// Starts a task that nobody waits for. It must watch the token itself if it can run for long.
    pub fn start<F>(&self, name: &'static str, work: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        tracing::trace!(task = name, "start");
        self.tracker.spawn(work)
    }

    /// Runs work that goes on even if the caller of this function is dropped. What it logs carries
    /// the caller's span, and it stays at the caller's place in a trace.
    pub async fn run<F, T>(&self, name: &'static str, work: F) -> Result<T, ScopeError>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        self.tracker.spawn(trace::within(trace::here(), work.in_current_span())).await.map_err(|error| {
            if error.is_panic() { ScopeError::Panicked { name } } else { ScopeError::Cancelled { name } }
        })
    }

    /// Runs blocking work off the async threads.
    pub async fn block<F, T>(&self, name: &'static str, work: F) -> Result<T, ScopeError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.tracker.spawn_blocking(work).await.map_err(|error| {
            if error.is_panic() { ScopeError::Panicked { name } } else { ScopeError::Cancelled { name } }
        })
    }

    /// Counts the tasks alive.
    pub fn tasks(&self) -> usize {
        self.tracker.len()
    }

    /// Asks every task to end and waits for them, up to a deadline. Returns how many are still
    /// there.
    pub async fn close(&self, deadline: Duration) -> usize {
        self.token.cancel();
        self.tracker.close();
        let _ = tokio::time::timeout(deadline, self.tracker.wait()).await;
        self.tracker.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_outlives_its_caller() {
        let scope = Scope::new();
        let (tx, rx) = tokio::sync::oneshot::channel();
        let caller = scope.run("slow", async move {
            tokio::task::yield_now().await;
            let _ = tx.send(());
        });
        drop(tokio::time::timeout(Duration::ZERO, caller).await);
        rx.await.unwrap();
    }

    #[tokio::test]
    async fn close_waits_for_acknowledgement() {
        let scope = Scope::new();
        let token = scope.child().token();
        scope.start("listener", async move { token.cancelled().await });
        assert_eq!(scope.close(Duration::from_secs(5)).await, 0);
    }
}
