//! Requests to stop: Ctrl-C in a terminal, or SIGTERM from a service manager.

use tokio::signal::unix::{SignalKind, signal};

/// Waits for Ctrl-C or SIGTERM. Listens from the call on, not from the first wait.
pub fn asked_to_stop() -> impl Future<Output = ()> {
    let [interrupt, terminate] = [SignalKind::interrupt(), SignalKind::terminate()].map(|kind| {
        let listening = signal(kind);
        async {
            match listening {
                Ok(mut listening) => drop(listening.recv().await),
                Err(_) => std::future::pending().await,
            }
        }
    });
    async {
        tokio::select! {
            () = interrupt => {}
            () = terminate => {}
        }
    }
}
