//! Ctrl-C and SIGTERM. Both are recorded from the start of listening, so that no sandbox is left
//! behind.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask this program to stop.
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

/// The exit code that shells use for Ctrl-C.
pub const INTERRUPTED: u8 = 130;

impl StopSignals {
    /// Starts listening. From now on these signals do not end the program by themselves.
    pub fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listen for signals");
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Waits for one of the signals.
    pub async fn recv(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
