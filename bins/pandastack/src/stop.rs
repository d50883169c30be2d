//! Being asked to stop, by a terminal or by whoever looks after processes.

use tokio::signal::unix::{SignalKind, signal};

/// Waits until somebody asks.
pub async fn asked_to_stop() {
    let mut terminate = match signal(SignalKind::terminate()) {
        Ok(terminate) => terminate,
        Err(_) => return std::future::pending().await,
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
