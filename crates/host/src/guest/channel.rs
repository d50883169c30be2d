//! Owns one channel: one request and its frames on the link.

use std::sync::Arc;

use bytes::Bytes;
use pandastack_wire_guest::{Credit, Frame, FrameKind, Message, WINDOW_BYTES, frame_cost};

use super::{
    activity::UseGuard,
    inbox::InboxReader,
    session::{LinkError, SessionState},
};

/// A channel. If it is dropped before its end, the guest is sent a cancel frame.
pub struct GuestChannel {
    number: u32,
    reader: InboxReader,
    shared: Arc<SessionState>,
    finished: bool,
    /// Data cost received but not yet credited back.
    owed: usize,
    /// Keeps the sandbox awake while the channel is open. The host's own requests have none.
    _using: Option<UseGuard>,
}

impl GuestChannel {
    pub(super) fn new(number: u32, reader: InboxReader, shared: Arc<SessionState>, using: Option<UseGuard>) -> Self {
        Self { number, reader, shared, finished: false, owed: 0, _using: using }
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    /// Sends a frame. Waits for space on the link.
    pub async fn send(&self, frame: Frame) -> Result<(), LinkError> {
        self.shared.send(frame).await
    }

    /// Waits for the next frame. An ended link is an error.
    pub async fn next(&mut self) -> Result<Frame, LinkError> {
        self.reader.next().await.ok_or(LinkError::Closed)
    }

    /// Allows an answer of many frames that guests send without credit. The caller must take each
    /// frame at once: while the queue is full, nothing else is read from the guest.
    pub fn without_credit(self) -> Self {
        self.reader.wait_when_full();
        self
    }

    /// Records that a data frame was forwarded. Credit is returned in halves of the window, not per
    /// frame.
    pub async fn consumed(&mut self, payload: &Bytes) -> Result<(), LinkError> {
        self.owed += frame_cost(payload.len());
        if self.owed >= WINDOW_BYTES / 2 {
            let bytes = std::mem::take(&mut self.owed) as u32;
            self.send(Credit { bytes }.frame(self.number)).await?;
        }
        Ok(())
    }

    /// Leaves the channel. If it has not ended, waits for space on the link to send a cancel frame.
    /// Dropping does not wait, so its cancel frame may be lost and the process would keep running.
    pub async fn leave(mut self) {
        // A cancelled guest sends the rest without credit, and it is not read.
        self.shared.close(self.number);
        if !self.finished {
            self.finished = self.send(Frame::new(self.number, FrameKind::Cancel, Bytes::new())).await.is_ok();
        }
    }

    /// Records that the last frame has arrived.
    pub fn finish(&mut self) {
        self.finished = true;
    }
}

impl Drop for GuestChannel {
    fn drop(&mut self) {
        self.shared.close(self.number);
        if !self.finished {
            self.shared.send_now(Frame::new(self.number, FrameKind::Cancel, Bytes::new()));
        }
    }
}
