//! One request's conversation as the fake guest sees it: frames in, frames out, credit in between.

use std::collections::VecDeque;

use bytes::Bytes;
use pandastack_wire_guest::{Credit, Error, ErrorKind, Frame, Kind, Message, WINDOW_BYTES, frame_cost};
use tokio::sync::mpsc;

use super::Script;

/// What goes to the link.
pub(super) enum Out {
    Frame(Frame),
    /// Bytes as they are, for saying nonsense.
    Raw(Vec<u8>),
}

pub(super) struct Channel {
    pub(super) number: u32,
    pub(super) out: mpsc::Sender<Out>,
    pub(super) input: mpsc::Receiver<Frame>,
    pub(super) script: Script,
    credit: usize,
    /// Input that came while output waited for credit.
    early: VecDeque<Frame>,
}

impl Channel {
    pub(super) fn new(number: u32, out: mpsc::Sender<Out>, input: mpsc::Receiver<Frame>, script: Script) -> Self {
        Self { number, out, input, script, credit: WINDOW_BYTES, early: VecDeque::new() }
    }

    pub(super) async fn send(&self, frame: Frame) {
        // A connection that is gone swallows what is said on it.
        let _ = self.out.send(Out::Frame(frame)).await;
    }

    pub(super) async fn say(&self, message: impl Message) {
        self.send(message.frame(self.number)).await;
    }

    pub(super) async fn refuse(&self, kind: ErrorKind, text: &str) {
        self.say(Error { kind, text: text.to_owned() }).await;
    }

    /// Waits for a frame that is no credit; credit is booked. Nothing comes after a lost
    /// connection.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        if let Some(frame) = self.early.pop_front() {
            return Some(frame);
        }
        loop {
            let frame = self.input.recv().await?;
            if frame.kind != Kind::Credit {
                return Some(frame);
            }
            self.credit += Credit::parse(&frame.payload).map_or(0, |credit| credit.bytes as usize);
        }
    }

    /// Sends data as soon as the host's window has room for it. A frame that is neither credit nor
    /// input ends the wait and is given.
    pub(super) async fn data(&mut self, frame: Frame) -> Option<Frame> {
        let cost = frame_cost(frame.payload.len());
        while self.credit < cost {
            let came = self.input.recv().await?;
            match came.kind {
                Kind::Credit => self.credit += Credit::parse(&came.payload).map_or(0, |credit| credit.bytes as usize),
                Kind::Stdin => self.early.push_back(came),
                _ => return Some(came),
            }
        }
        self.credit -= cost;
        self.script.note_sent(frame.payload.len());
        self.send(frame).await;
        None
    }

    /// Lets the host send as much again as it sent.
    pub(super) async fn consumed(&self, payload: &Bytes) {
        if !payload.is_empty() {
            self.say(Credit { bytes: payload.len() as u32 }).await;
        }
    }
}
