//! Owns the queue of frames that wait for one channel's reader. The guest decides what it sends, so
//! the queue is bounded in bytes, per channel and for all channels of the link.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use pandastack_wire_guest::{Frame, frame_cost};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::{
    limits::{CHANNEL_BYTES_MAX, CHANNEL_QUEUE},
    session::LinkError,
};

/// The link's end of a queue.
pub(super) struct Inbox {
    frames: mpsc::Sender<QueuedFrame>,
    /// Bytes that the channel may still queue.
    room: Arc<Semaphore>,
    /// Whether a full queue stops the link's reader. If not, it closes the link.
    waits: Arc<AtomicBool>,
}

/// The channel's end. It must not hold the link's end, whose drop signals the end of the link.
pub(super) struct InboxReader {
    frames: mpsc::Receiver<QueuedFrame>,
    waits: Arc<AtomicBool>,
}

/// A frame that counts against both bounds until its reader takes it.
struct QueuedFrame {
    frame: Frame,
    _channel: OwnedSemaphorePermit,
    _link: OwnedSemaphorePermit,
}

/// Makes a queue.
pub(super) fn open() -> (Arc<Inbox>, InboxReader) {
    let (tx, frames) = mpsc::channel(CHANNEL_QUEUE);
    let (room, waits) = (Arc::new(Semaphore::new(CHANNEL_BYTES_MAX)), Arc::new(AtomicBool::new(false)));
    let inbox = Inbox { frames: tx, room, waits: waits.clone() };
    (Arc::new(inbox), InboxReader { frames, waits })
}

impl Inbox {
    /// Queues a frame. Waits while the whole link has no space, because a guest that obeys its
    /// credit can fill every channel. No space on the channel means that the guest ignores its
    /// credit, which is an error.
    pub(super) async fn put(&self, mut frame: Frame, link: &Arc<Semaphore>) -> Result<(), LinkError> {
        let cost = frame_cost(frame.payload.len()) as u32;
        let channel = match self.room.clone().try_acquire_many_owned(cost) {
            Ok(permit) => permit,
            Err(_) if self.waits.load(Ordering::Relaxed) => acquire(&self.room, cost).await?,
            Err(_) => return Err(LinkError::Overrun { channel: frame.channel }),
        };
        let link = acquire(link, cost).await?;
        // Copied, because a slice would keep the decoder's whole buffer alive for one byte.
        frame.payload = Bytes::copy_from_slice(&frame.payload);
        match self.frames.try_send(QueuedFrame { frame, _channel: channel, _link: link }) {
            // A reader that has left needs no more frames.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(queued)) => Err(LinkError::Overrun { channel: queued.frame.channel }),
        }
    }
}

async fn acquire(room: &Arc<Semaphore>, cost: u32) -> Result<OwnedSemaphorePermit, LinkError> {
    room.clone().acquire_many_owned(cost).await.map_err(|_| LinkError::Closed)
}

impl InboxReader {
    /// Takes the next frame. `None` once the link has ended and the queue is empty.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        self.frames.recv().await.map(|queued| queued.frame)
    }

    /// Makes a full queue stop the link's reader instead of closing the link. For answers that
    /// guests send without credit. The reader must never wait for anything else.
    pub(super) fn wait_when_full(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }
}
