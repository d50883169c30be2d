//! Named tasks that are counted, cancelled on request and awaited at shutdown. Servers start their
//! tasks here.

use std::{future::Future, time::Duration};

use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

use crate::trace;

/// A task that ended without a value.
#[derive(Debug, thiserror::Error)]
pub enum ScopeError {
    #[error("task {name} panicked")]
    Panicked { name: &'static str },
    #[error("task {name} was cancelled by shutdown")]
    Cancelled { name: &'static str },
}

/// A group of tasks. Clones share the group.
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

    /// Returns the cancellation token of the scope's tasks.
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Makes a child scope. Its tasks are cancelled with this scope's, and this scope awaits them.
    pub fn child(&self) -> Scope {
        Scope { tracker: self.tracker.clone(), token: self.token.child_token() }
    }

    /// Starts a detached task. A task that can run for long must watch the token itself.
    pub fn start<F>(&self, name: &'static str, work: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        tracing::trace!(task = name, "start");
        self.tracker.spawn(work)
    }

    /// Runs work that continues even if the caller is dropped. Its log lines carry the caller's
    /// span, and its trace spans stay below the caller's.
    pub async fn run<F, T>(&self, name: &'static str, work: F) -> Result<T, ScopeError>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        self.tracker.spawn(trace::within(trace::here(), work.in_current_span())).await.map_err(|error| {
            if error.is_panic() { ScopeError::Panicked { name } } else { ScopeError::Cancelled { name } }
        })
    }

    /// Runs blocking work outside the async threads.
    pub async fn block<F, T>(&self, name: &'static str, work: F) -> Result<T, ScopeError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.tracker.spawn_blocking(work).await.map_err(|error| {
            if error.is_panic() { ScopeError::Panicked { name } } else { ScopeError::Cancelled { name } }
        })
    }

    /// Counts the running tasks.
    pub fn tasks(&self) -> usize {
        self.tracker.len()
    }

    /// Cancels every task and waits for them, up to a deadline. Returns how many are still running.
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
