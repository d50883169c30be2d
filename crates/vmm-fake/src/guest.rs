//! The guest of a fake machine. This room knows no guest protocol: tests supply a guest that speaks
//! one.

use async_trait::async_trait;
use tokio::{io::DuplexStream, sync::watch};

use pandastack_vmm::Power;

/// Capacity of a link in each direction. The writer waits when it is full, as with a socket.
pub(crate) const LINK_BYTES: usize = 64 * 1024;

/// The guest of one machine.
#[async_trait]
pub trait FakeGuest: Send + Sync + 'static {
    /// Serves one connection to its end. All work must happen inside this future, because a paused
    /// machine stops polling it.
    async fn serve(&self, link: DuplexStream);

    /// The guest's memory, as it goes into a layer.
    fn memory(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Loads the memory of a layer. Called once, before the guest first runs.
    fn remember(&self, _memory: &[u8]) {}
}

/// Runs guest work as a virtual CPU would: not while paused, and never after death. The work of a
/// dead machine is kept until the machine is dropped, because the link of a killed process stays
/// silent instead of closing.
pub(crate) async fn run_powered(work: impl Future<Output = ()> + Send, mut power: watch::Receiver<Power>) {
    let mut work = std::pin::pin!(work);
    loop {
        if power.wait_for(|power| *power == Power::Running).await.is_err() {
            return;
        }
        tokio::select! {
            biased;
            paused = power.wait_for(|power| *power != Power::Running) => {
                if paused.is_err() {
                    return;
                }
            }
            () = &mut work => return,
        }
    }
}
