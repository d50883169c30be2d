//! Waits for a condition on a value, with a deadline.

use std::{future::Future, time::Duration};

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
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    match tokio::time::timeout(deadline, asking).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not come true within {deadline:?}"),
    }
}
