//! State of one channel, shared by its connection and the future that works on it. It has no queue,
//! so nothing that a host sends can make it grow: input is limited by the window, signals are a
//! set, and a newer size replaces an older one.

use std::cell::{Cell, RefCell};

use bytes::{Bytes, BytesMut};
use pandastack_wire_guest::{Credit, ErrorKind, FRAME_COST_MIN, Frame, Message, Resize, WINDOW_BYTES, frame_cost};
use tokio::sync::{Notify, mpsc::Permit};

use super::{fault::GuestFault, held::HeldBytes, lanes::Lanes};
use crate::limits;

/// Why a channel must end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EarlyEnd {
    /// The host cancelled it.
    Cancelled,
    /// The host sent more than the window allows.
    Overrun,
    /// The host holds too many bytes in our memory, over all channels.
    Full,
}

impl From<EarlyEnd> for GuestFault {
    fn from(fate: EarlyEnd) -> Self {
        match fate {
            EarlyEnd::Cancelled => GuestFault::new(ErrorKind::Cancelled, "cancelled"),
            EarlyEnd::Overrun => GuestFault::new(ErrorKind::Invalid, "the input exceeds the flow control window"),
            EarlyEnd::Full => HeldBytes::fault(),
        }
    }
}

/// State of one channel.
pub(crate) struct AgentChannel {
    pub(crate) id: u32,
    lanes: Lanes,
    /// Bytes that the agent may still send.
    credit: Cell<usize>,
    input: RefCell<BytesMut>,
    input_ended: Cell<bool>,
    /// Bytes that the host may still send.
    window: Cell<usize>,
    /// Bytes consumed and not yet credited back.
    consumed: Cell<usize>,
    signals: Cell<u64>,
    size: Cell<Option<Resize>>,
    fate: Cell<Option<EarlyEnd>>,
    changed: Notify,
}

/// A place in the bulk lane, and the credit to fill it.
pub(crate) struct SendPermit<'a> {
    channel: &'a AgentChannel,
    place: Option<Permit<'a, Frame>>,
    pub(crate) bytes: usize,
}

impl SendPermit<'_> {
    /// Sends data. It is dropped if the connection is gone.
    pub(crate) fn send(self, frame: Frame) {
        assert!(frame.payload.len() <= self.bytes, "{} bytes sent on credit for {}", frame.payload.len(), self.bytes);
        // Small frames cost more than their bytes, so that they cannot fill the host's queue.
        self.channel.credit.set(self.channel.credit.get().saturating_sub(frame_cost(frame.payload.len())));
        if let Some(place) = self.place {
            place.send(frame);
        }
    }
}

impl AgentChannel {
    pub(crate) fn new(id: u32, lanes: Lanes) -> Self {
        Self {
            id,
            lanes,
            credit: Cell::new(WINDOW_BYTES),
            input: RefCell::default(),
            input_ended: Cell::new(false),
            window: Cell::new(WINDOW_BYTES),
            consumed: Cell::new(0),
            signals: Cell::new(0),
            size: Cell::new(None),
            fate: Cell::new(None),
            changed: Notify::new(),
        }
    }

    // The connection's side: what the host sent.

    pub(crate) fn grant(&self, bytes: u32) {
        self.credit.set(self.credit.get().saturating_add(bytes as usize));
        self.changed.notify_waiters();
    }

    /// Detaches the channel from its reader: output needs no more credit.
    pub(crate) fn detach_reader(&self) {
        self.grant(u32::MAX);
        self.credit.set(usize::MAX / 2);
    }

    pub(crate) fn put_input(&self, bytes: &[u8], ended: bool) {
        match self.window.get().checked_sub(bytes.len()) {
            None => self.end_early(EarlyEnd::Overrun),
            // Input after the end is ignored.
            Some(_) if self.input_ended.get() => {}
            Some(_) if !self.lanes.held().has_room(bytes.len()) => self.end_early(EarlyEnd::Full),
            Some(window) => {
                self.window.set(window);
                self.lanes.held().add(bytes.len());
                self.input.borrow_mut().extend_from_slice(bytes);
                self.input_ended.set(ended);
                self.changed.notify_waiters();
            }
        }
    }

    /// Returns how much `put_input` accepts now.
    pub(crate) fn window(&self) -> usize {
        self.window.get()
    }

    pub(crate) fn put_signal(&self, number: i32) {
        if let 1..64 = number {
            self.signals.set(self.signals.get() | 1 << number);
            self.changed.notify_waiters();
        }
    }

    pub(crate) fn put_size(&self, size: Resize) {
        self.size.set(Some(size));
        self.changed.notify_waiters();
    }

    /// Asks the work to end early. The first reason is kept.
    pub(crate) fn end_early(&self, fate: EarlyEnd) {
        self.fate.set(self.fate.get().or(Some(fate)));
        self.changed.notify_waiters();
    }

    // The work's side.

    /// Waits until something may have changed. Check first, then wait: on one thread no change is
    /// missed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(crate) fn fate(&self) -> Option<EarlyEnd> {
        self.fate.get()
    }

    /// Waits until the channel must end early.
    pub(crate) async fn early_end(&self) -> EarlyEnd {
        loop {
            match self.fate.get() {
                Some(fate) => return fate,
                None => self.changed().await,
            }
        }
    }

    pub(crate) fn take_signals(&self) -> impl Iterator<Item = i32> + use<> {
        let signals = self.signals.take();
        (1..64).filter(move |number| signals & 1 << number != 0)
    }

    pub(crate) fn take_size(&self) -> Option<Resize> {
        self.size.take()
    }

    /// Waits for input. `None` once it has ended.
    pub(crate) async fn take_input(&self) -> Option<Bytes> {
        loop {
            let input = self.input.borrow_mut().split();
            if !input.is_empty() {
                self.lanes.held().release(input.len());
                return Some(input.freeze());
            }
            if self.input_ended.get() {
                return None;
            }
            self.changed().await;
        }
    }

    /// Lets the host send as many bytes as were consumed.
    pub(crate) async fn credit_back(&self, bytes: usize) {
        let consumed = self.consumed.get() + bytes;
        self.consumed.set(consumed);
        if consumed >= limits::CREDIT_STEP_BYTES {
            self.consumed.set(0);
            self.window.set(self.window.get() + consumed);
            let bytes = u32::try_from(consumed).expect("no more than the window is ever unconsumed");
            self.lanes.control(Credit { bytes }.frame(self.id)).await;
        }
    }

    /// Waits until the host gives credit for a frame.
    pub(crate) async fn credited(&self) {
        while self.credit.get() < FRAME_COST_MIN {
            self.changed().await;
        }
    }

    /// Waits for credit and a place in the lane. Use at most `bytes` of it, before the next await.
    pub(crate) async fn room(&self, bytes: usize) -> SendPermit<'_> {
        loop {
            self.credited().await;
            let place = self.lanes.place().await;
            let bytes = bytes.min(self.credit.get());
            if self.credit.get() >= FRAME_COST_MIN {
                return SendPermit { channel: self, place, bytes };
            }
        }
    }

    /// Waits for credit and a place for one frame of `bytes` bytes. They must be well below half a
    /// window, because the host credits half windows.
    pub(crate) async fn room_for(&self, bytes: usize) -> SendPermit<'_> {
        loop {
            while self.credit.get() < bytes.max(FRAME_COST_MIN) {
                self.changed().await;
            }
            let place = self.lanes.place().await;
            if self.credit.get() >= bytes.max(FRAME_COST_MIN) {
                return SendPermit { channel: self, place, bytes };
            }
        }
    }

    /// Sends a frame that needs no credit, in order with the data.
    pub(crate) async fn send(&self, frame: Frame) {
        if let Some(place) = self.lanes.place().await {
            place.send(frame);
        }
    }

    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }
}

impl Drop for AgentChannel {
    fn drop(&mut self) {
        self.lanes.held().release(self.input.borrow().len());
    }
}
