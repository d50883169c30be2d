//! Tracks whether a removal of a sandbox is requested. If so, the sandbox's other waits end early.

use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;

/// The removal requests of one sandbox, for its driver and its callers. Clones share them.
#[derive(Clone)]
pub struct RemovalRequests {
    /// Cancelled when the host closes, which gives up every sandbox.
    host: CancellationToken,
    removals: Arc<Mutex<RemovalState>>,
}

struct RemovalState {
    count: usize,
    /// Cancelled while `count` is above zero.
    token: CancellationToken,
}

impl RemovalRequests {
    /// Starts without a removal request.
    pub fn new(host: CancellationToken) -> Self {
        let token = host.child_token();
        Self { host, removals: Arc::new(Mutex::new(RemovalState { count: 0, token })) }
    }

    /// Gives the sandbox up until the removal is dropped. It may be refused, and its caller may
    /// leave.
    pub fn ask(&self) -> RemovalRequest {
        let mut removals = self.removals.lock().expect("no holder panics");
        removals.count += 1;
        removals.token.cancel();
        RemovalRequest(self.clone())
    }

    /// Returns a token that the next removal cancels. It is cancelled already while one is
    /// requested.
    pub fn token(&self) -> CancellationToken {
        self.removals.lock().expect("no holder panics").token.clone()
    }

    /// Whether the sandbox is given up.
    pub fn is_cancelled(&self) -> bool {
        self.token().is_cancelled()
    }

    /// Waits until the sandbox is given up.
    pub async fn cancelled(&self) {
        self.token().cancelled().await;
    }
}

/// One requested removal.
pub struct RemovalRequest(RemovalRequests);

impl Drop for RemovalRequest {
    fn drop(&mut self) {
        let mut removals = self.0.removals.lock().expect("no holder panics");
        removals.count -= 1;
        if removals.count == 0 {
            removals.token = self.0.host.child_token();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_given_up_while_a_removal_is_there_and_for_all() {
        let given_up = RemovalRequests::new(CancellationToken::new());
        let other = given_up.clone();
        let (one, two) = (given_up.ask(), other.ask());
        drop(one);
        assert!(given_up.is_cancelled() && other.is_cancelled(), "another removal is still there");
        drop(two);
        assert!(!given_up.is_cancelled() && !other.is_cancelled(), "both were refused");
        let before = other.token();
        let _three = given_up.ask();
        assert!(before.is_cancelled(), "what waits since the refusal is cut short");
    }

    #[test]
    fn the_end_of_the_host_gives_everything_up() {
        let host = CancellationToken::new();
        let given_up = RemovalRequests::new(host.clone());
        drop(given_up.ask());
        assert!(!given_up.is_cancelled());
        host.cancel();
        assert!(given_up.is_cancelled());
    }
}
