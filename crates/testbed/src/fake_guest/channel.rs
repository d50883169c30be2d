//! The channel of one request, as the fake guest sees it: frames in, frames out, and credit.

use std::collections::VecDeque;

use bytes::Bytes;
use pandastack_wire_guest::{Credit, Error, ErrorKind, Frame, FrameKind, Message, WINDOW_BYTES, frame_cost};
use tokio::sync::mpsc;

use super::GuestScript;

/// Output to the link.
pub(super) enum LinkOutput {
    Frame(Frame),
    /// Raw bytes, to violate the protocol.
    Raw(Vec<u8>),
}

pub(super) struct FakeChannel {
    pub(super) number: u32,
    pub(super) out: mpsc::Sender<LinkOutput>,
    pub(super) input: mpsc::Receiver<Frame>,
    pub(super) script: GuestScript,
    credit: usize,
    /// Input that arrived while output waited for credit.
    early: VecDeque<Frame>,
}

impl FakeChannel {
    pub(super) fn new(
        number: u32,
        out: mpsc::Sender<LinkOutput>,
        input: mpsc::Receiver<Frame>,
        script: GuestScript,
    ) -> Self {
        Self { number, out, input, script, credit: WINDOW_BYTES, early: VecDeque::new() }
    }

    pub(super) async fn send(&self, frame: Frame) {
        // Ignored if the connection is gone.
        let _ = self.out.send(LinkOutput::Frame(frame)).await;
    }

    pub(super) async fn say(&self, message: impl Message) {
        self.send(message.frame(self.number)).await;
    }

    pub(super) async fn refuse(&self, kind: ErrorKind, text: &str) {
        self.say(Error { kind, text: text.to_owned() }).await;
    }

    /// Waits for the next frame that is not credit, and counts credit. `None` after a lost
    /// connection.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        if let Some(frame) = self.early.pop_front() {
            return Some(frame);
        }
        loop {
            let frame = self.input.recv().await?;
            if frame.kind != FrameKind::Credit {
                return Some(frame);
            }
            self.credit += Credit::parse(&frame.payload).map_or(0, |credit| credit.bytes as usize);
        }
    }

    /// Sends data when the host's window allows it. A frame that is neither credit nor input ends
    /// the wait and is returned.
    pub(super) async fn data(&mut self, frame: Frame) -> Option<Frame> {
        let cost = frame_cost(frame.payload.len());
        while self.credit < cost {
            let came = self.input.recv().await?;
            match came.kind {
                FrameKind::Credit => {
                    self.credit += Credit::parse(&came.payload).map_or(0, |credit| credit.bytes as usize)
                }
                FrameKind::Stdin => self.early.push_back(came),
                _ => return Some(came),
            }
        }
        self.credit -= cost;
        self.script.note_sent(frame.payload.len());
        self.send(frame).await;
        None
    }

    /// Returns credit for received data to the host.
    pub(super) async fn consumed(&self, payload: &Bytes) {
        if !payload.is_empty() {
            self.say(Credit { bytes: payload.len() as u32 }).await;
        }
    }
}
