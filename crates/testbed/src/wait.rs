//! Waits for a condition on a value, with a deadline.

use std::{
    future::Future,
    time::{Duration, Instant},
};

/// Pause between two looks.
const STEP: Duration = Duration::from_millis(5);

/// Polls every few milliseconds until the answer is `Some`. Panics with the name after the timeout.
pub async fn wait_for<F, W, T>(what: &str, deadline: Duration, mut ask: F) -> T
where
    F: FnMut() -> W,
    W: Future<Output = Option<T>>,
{
    let asking = async {
        loop {
            if let Some(value) = ask().await {
                return value;
            }
            tokio::time::sleep(STEP).await;
        }
    };
    match tokio::time::timeout(deadline, asking).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not come true within {deadline:?}"),
    }
}

/// As [`wait_for`], for a test that blocks its thread.
pub fn block_until<T>(what: &str, deadline: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + deadline;
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(Instant::now() < end, "{what} did not come true within {deadline:?}");
        std::thread::sleep(STEP);
    }
}
