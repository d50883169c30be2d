//! The sending side of a connection: two bounded queues into one socket. Short answers overtake
//! bulk data. Within a lane, the longest waiting sender goes next, so a busy channel cannot starve
//! the others.

use bytes::{Buf, BytesMut};
use pandastack_wire_guest::Frame;
use tokio::{
    io::AsyncWriteExt,
    net::tcp::OwnedWriteHalf,
    sync::mpsc::{self, Permit, Receiver, Sender},
};

use super::held::HeldBytes;
use crate::limits;

/// The senders' ends. After the connection is gone, frames are dropped and no sender blocks.
#[derive(Clone)]
pub(crate) struct Lanes {
    control: Sender<Frame>,
    bulk: Sender<Frame>,
    held: HeldBytes,
}

/// The socket's end.
pub(crate) struct LaneReceiver {
    control: Receiver<Frame>,
    bulk: Receiver<Frame>,
}

/// Makes the lanes of one connection.
pub(crate) fn open() -> (Lanes, LaneReceiver) {
    let (control, control_rx) = mpsc::channel(limits::CONTROL_FRAMES_MAX);
    let (bulk, bulk_rx) = mpsc::channel(limits::BULK_FRAMES_MAX);
    (Lanes { control, bulk, held: HeldBytes::default() }, LaneReceiver { control: control_rx, bulk: bulk_rx })
}

impl Lanes {
    /// Sends ahead of all bulk data.
    pub(crate) async fn control(&self, frame: Frame) {
        let _ = self.control.send(frame).await;
    }

    /// Sends ahead of all bulk data, if there is room now.
    pub(crate) fn try_control(&self, frame: Frame) {
        let _ = self.control.try_send(frame);
    }

    /// Returns the count of bytes that the peer holds in our memory.
    pub(crate) fn held(&self) -> &HeldBytes {
        &self.held
    }

    /// Waits for a place in the bulk lane. `None` if the connection is gone.
    pub(crate) async fn place(&self) -> Option<Permit<'_, Frame>> {
        self.bulk.reserve().await.ok()
    }
}

impl LaneReceiver {
    /// Writes frames until all senders are gone or the socket fails. After that, senders no longer
    /// block, so processes without a reader can continue.
    pub(crate) async fn run(mut self, mut socket: OwnedWriteHalf) {
        let mut batch = BytesMut::new();
        while let Some(frame) = self.next().await {
            if self.write(frame, &mut batch, &mut socket).await.is_err() {
                return;
            }
        }
    }

    /// Returns the next frame, short answers first.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        tokio::select! {
            biased;
            Some(frame) = self.control.recv() => Some(frame),
            Some(frame) = self.bulk.recv() => Some(frame),
            else => None,
        }
    }

    /// Writes one frame and the small ones queued behind it.
    async fn write(&mut self, frame: Frame, batch: &mut BytesMut, socket: &mut OwnedWriteHalf) -> std::io::Result<()> {
        let mut next = Some(frame);
        while let Some(frame) = next {
            if frame.payload.len() > limits::COALESCE_BYTES {
                batch.extend_from_slice(&frame.header());
                let mut bytes = (&batch[..]).chain(frame.payload);
                socket.write_all_buf(&mut bytes).await?;
                batch.clear();
                return Ok(());
            }
            frame.encode(batch);
            next = match batch.len() {
                0..=limits::COALESCE_BYTES => self.control.try_recv().or_else(|_| self.bulk.try_recv()).ok(),
                _ => None,
            };
        }
        socket.write_all_buf(batch).await
    }
}
