//! One request's conversation on the link.

use std::sync::Arc;

use bytes::Bytes;
use pandastack_wire_guest::{Credit, Frame, Kind, Message, WINDOW_BYTES, frame_cost};

use super::{
    activity::Use,
    inbox::Reader,
    session::{LinkError, Shared},
};

/// A channel. Dropped before its end, it tells the guest to stop.
pub struct Channel {
    number: u32,
    reader: Reader,
    shared: Arc<Shared>,
    finished: bool,
    /// Data cost received but not yet credited back.
    owed: usize,
    /// What keeps the sandbox awake meanwhile; the host's own requests do not.
    _using: Option<Use>,
}

impl Channel {
    pub(super) fn new(number: u32, reader: Reader, shared: Arc<Shared>, using: Option<Use>) -> Self {
        Self { number, reader, shared, finished: false, owed: 0, _using: using }
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    /// Sends a frame, waiting for room on the link.
    pub async fn send(&self, frame: Frame) -> Result<(), LinkError> {
        self.shared.send(frame).await
    }

    /// Waits for the next frame; an ended link is an error.
    pub async fn next(&mut self) -> Result<Frame, LinkError> {
        self.reader.next().await.ok_or(LinkError::Closed)
    }

    /// Expects an answer of many frames that guests send without credit. The caller must take each
    /// frame as it comes: while the queue is full, nothing else is read from the guest.
    pub fn without_credit(self) -> Self {
        self.reader.wait_when_full();
        self
    }

    /// Says that a data frame was passed on. Credit goes back in halves of the window, not frame by
    /// frame.
    pub async fn consumed(&mut self, payload: &Bytes) -> Result<(), LinkError> {
        self.owed += frame_cost(payload.len());
        if self.owed >= WINDOW_BYTES / 2 {
            let bytes = std::mem::take(&mut self.owed) as u32;
            self.send(Credit { bytes }.frame(self.number)).await?;
        }
        Ok(())
    }

    /// Leaves the channel. If it has not ended the guest is told to stop, however long the link has
    /// no room for that: the farewell of a drop does not wait, and a process that missed it would
    /// run for nobody.
    pub async fn leave(mut self) {
        // A guest that is told to stop sends the rest without credit, and nobody reads it.
        self.shared.close(self.number);
        if !self.finished {
            self.finished = self.send(Frame::new(self.number, Kind::Cancel, Bytes::new())).await.is_ok();
        }
    }

    /// Notes that the terminal frame has come.
    pub fn finish(&mut self) {
        self.finished = true;
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.shared.close(self.number);
        if !self.finished {
            self.shared.send_now(Frame::new(self.number, Kind::Cancel, Bytes::new()));
        }
    }
}
