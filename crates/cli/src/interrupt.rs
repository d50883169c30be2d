//! Ctrl-C and polite kills, remembered from the moment we listen, so that a sandbox is never left
//! behind by one.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask us to stop.
pub struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
}

/// What a shell reports for a program ended by Ctrl-C.
pub const INTERRUPTED: u8 = 130;

impl Interrupt {
    /// Starts listening. From now on these signals no longer end the program by themselves.
    pub fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listen for signals");
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Waits for one of them.
    pub async fn recv(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
