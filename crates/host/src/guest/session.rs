//! Owns one connection to a guest agent: handshake, channel table, reader and writer tasks. The
//! guest is not trusted: everything it sends is checked, and an invalid frame closes only this
//! link.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex},
};

use bytes::BytesMut;
use pandastack_kit::Scope;
use pandastack_vmm::Link;
use pandastack_wire_fleet::UseKind;
use pandastack_wire_guest::{
    Decoder, Frame, FrameError, FrameKind, GENERATION, GuestUsage, Hello, Message, PortList, Rebirth, Reborn, Welcome,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
};
use tokio_util::sync::CancellationToken;

use super::{
    activity::{Activity, UseGuard},
    channel::GuestChannel,
    inbox::{self, Inbox},
    limits::{
        BATCH_BYTES, CHANNEL_BYTES_MAX, CHANNELS_MAX, LINK_BYTES_MAX, OUT_BYTES_MAX, OUT_QUEUE, REQUEST_DEADLINE,
        STREAMS_MAX,
    },
};

/// The link failed, or the guest sent something that is not allowed.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("the link to the guest broke")]
    Io(#[from] io::Error),
    #[error("the guest closed the link")]
    Closed,
    #[error("the guest sent an invalid frame")]
    Frame(#[from] FrameError),
    #[error("the guest sent {found:?} instead of {wanted:?}")]
    Unexpected { wanted: FrameKind, found: FrameKind },
    #[error("the guest sent an invalid message")]
    Message(#[from] pandastack_wire_guest::BadMessage),
    #[error("the guest refused: {0}")]
    Refused(String),
    #[error("the guest uses protocol generation {0}, which this host does not support")]
    Generation(u32),
    #[error("the guest exceeded its credit on channel {channel}: more than {CHANNEL_BYTES_MAX} bytes are unread")]
    Overrun { channel: u32 },
    #[error("too many requests at once in one sandbox")]
    Busy,
    #[error("the guest did not respond in time")]
    Deadline,
    #[error("the guest is being hibernated")]
    Retired,
    #[error("the guest's agent is too old")]
    TooOld,
}

/// Generation of a guest that does not report one at its rebirth: the last that did not report it.
const UNSAID_GENERATION: u32 = 2;

/// An open connection. Clones share it. It closes when the last clone is dropped.
#[derive(Clone)]
pub struct GuestSession {
    shared: Arc<SessionState>,
}

pub(super) struct SessionState {
    out: mpsc::Sender<OutgoingFrame>,
    /// Bytes that may still be queued in `out`.
    out_room: Arc<Semaphore>,
    table: Arc<Mutex<ChannelTable>>,
    broken: watch::Receiver<bool>,
    /// Ends the reader. A dead guest does not close the link, so the reader would wait for ever.
    end: CancellationToken,
    activity: Activity,
    /// Protocol generation of the guest.
    generation: u32,
    /// Limits the connections to the guest's own ports.
    streams: Arc<Semaphore>,
}

impl Drop for SessionState {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// A frame that waits to be written. It counts against the queue's bytes until then.
struct OutgoingFrame {
    frame: Frame,
    _room: Option<OwnedSemaphorePermit>,
}

#[derive(Default)]
struct ChannelTable {
    last: u32,
    open: HashMap<u32, Arc<Inbox>>,
    closed: bool,
}

impl GuestSession {
    /// Does the handshake and sends the rebirth, if any, in the same write: one round trip before
    /// the first request.
    pub async fn open(
        mut link: Box<dyn Link>,
        secret: &[u8],
        rebirth: Option<&Rebirth>,
        scope: &Scope,
    ) -> Result<Self, LinkError> {
        let new_life: Vec<Frame> = rebirth.map(|rebirth| rebirth.frame(0)).into_iter().collect();
        let (mut decoder, generation) = greet(&mut link, secret, &new_life).await?;
        if rebirth.is_some() {
            answer::<Reborn>(&read_frame(&mut link, &mut decoder).await?)?;
        }
        Ok(Self::start(link, decoder, generation, scope))
    }

    /// Continues on a link that was sealed with its guest, by sending the rebirth. The guest has
    /// already accepted the handshake.
    pub(super) async fn resume(mut link: Box<dyn Link>, rebirth: &Rebirth, scope: &Scope) -> Result<Self, LinkError> {
        let mut first = BytesMut::new();
        rebirth.frame(0).encode(&mut first);
        link.write_all(&first).await?;
        let mut decoder = Decoder::default();
        let reborn = answer::<Reborn>(&read_frame(&mut link, &mut decoder).await?)?;
        Ok(Self::start(link, decoder, reborn.generation.unwrap_or(UNSAID_GENERATION), scope))
    }

    /// Returns a link that is already lost, for a guest that cannot be reached now.
    pub fn lost(scope: &Scope) -> Self {
        let nothing = tokio::io::join(tokio::io::empty(), tokio::io::sink());
        Self::start(Box::new(nothing), Decoder::default(), GENERATION, scope)
    }

    /// Starts the tasks of a link after the handshake.
    fn start(link: Box<dyn Link>, decoder: Decoder, generation: u32, scope: &Scope) -> Self {
        let (read, write) = tokio::io::split(link);
        let (out, queue) = mpsc::channel(OUT_QUEUE);
        let (tx, broken) = watch::channel(false);
        let table = Arc::new(Mutex::new(ChannelTable::default()));
        let end = CancellationToken::new();
        let (reading, writing) = (end.clone(), end.clone());
        let readers_table = table.clone();
        scope.start("guest-write", async move {
            tokio::select! {
                () = write_frames(write, queue) => {}
                () = writing.cancelled() => {}
            }
        });
        scope.start("guest-read", async move {
            let why = tokio::select! {
                why = read_frames(read, decoder, &readers_table) => why,
                () = reading.cancelled() => LinkError::Closed,
            };
            match &why {
                LinkError::Overrun { .. } => tracing::warn!(%why, "guest link closed"),
                _ => tracing::debug!(%why, "guest link ended"),
            }
            close_channels(&readers_table);
            let _ = tx.send(true);
        });
        let (activity, streams) = (Activity::default(), Arc::new(Semaphore::new(STREAMS_MAX)));
        let out_room = Arc::new(Semaphore::new(OUT_BYTES_MAX));
        Self { shared: Arc::new(SessionState { out, out_room, table, broken, end, activity, generation, streams }) }
    }

    /// Closes the link at once. All requests in progress on it fail.
    pub fn close(&self) {
        self.shared.end.cancel();
    }

    /// Returns the protocol generation of the guest.
    pub(super) fn generation(&self) -> u32 {
        self.shared.generation
    }

    /// Returns the use counter of the guest.
    pub fn activity(&self) -> &Activity {
        &self.shared.activity
    }

    /// Reserves one connection to the guest's own ports.
    pub(super) fn stream_room(&self) -> Result<OwnedSemaphorePermit, LinkError> {
        self.shared.streams.clone().try_acquire_owned().map_err(|_| LinkError::Busy)
    }

    /// Cancelled when this link is given up: the guest sleeps, is removed, or is dialled again.
    pub(super) fn ended(&self) -> CancellationToken {
        self.shared.end.clone()
    }

    /// Opens a channel for a request that guests support since a generation. An older guest would
    /// close the link.
    pub(super) fn channel_since(&self, generation: u32) -> Result<GuestChannel, LinkError> {
        match self.shared.generation >= generation {
            true => self.channel(),
            false => Err(LinkError::TooOld),
        }
    }

    /// Opens a channel for a client.
    pub(super) fn channel(&self) -> Result<GuestChannel, LinkError> {
        self.channel_as(UseKind::Client)
    }

    /// Opens a channel.
    pub(super) fn channel_as(&self, by: UseKind) -> Result<GuestChannel, LinkError> {
        let using = self.shared.activity.begin(by).ok_or(LinkError::Retired)?;
        self.open_channel(Some(using))
    }

    fn open_channel(&self, using: Option<UseGuard>) -> Result<GuestChannel, LinkError> {
        let (inbox, reader) = inbox::open();
        let mut table = self.shared.table.lock().expect("no holder panics");
        if table.closed {
            return Err(LinkError::Closed);
        }
        if table.open.len() >= CHANNELS_MAX {
            return Err(LinkError::Busy);
        }
        loop {
            table.last = table.last.wrapping_add(1).max(1);
            if !table.open.contains_key(&table.last) {
                break;
            }
        }
        let number = table.last;
        table.open.insert(number, inbox);
        Ok(GuestChannel::new(number, reader, self.shared.clone(), using))
    }

    /// Waits until the link has ended.
    pub async fn broken(&self) {
        let mut broken = self.shared.broken.clone();
        let _ = broken.wait_for(|broken| *broken).await;
    }

    /// Makes one round trip.
    pub async fn ping(&self) -> Result<(), LinkError> {
        self.ask(|number| Frame::new(number, FrameKind::Ping, bytes::Bytes::new()), FrameKind::Pong).await.map(drop)
    }

    /// Sends the rebirth to a guest on an open link.
    pub async fn rebirth(&self, rebirth: &Rebirth) -> Result<(), LinkError> {
        self.ask(|number| rebirth.frame(number), FrameKind::Reborn).await.map(drop)
    }

    /// Makes the guest flush and freeze its file systems. This is the host's own request, so it
    /// works on a retired guest too.
    pub async fn quiesce(&self) -> Result<(), LinkError> {
        let question = |number| Frame::new(number, FrameKind::Quiesce, bytes::Bytes::new());
        ask_on(self.open_channel(None)?, question, FrameKind::Done).await.map(drop)
    }

    /// Undoes `quiesce`.
    pub async fn thaw(&self) -> Result<(), LinkError> {
        let question = |number| Frame::new(number, FrameKind::Thaw, bytes::Bytes::new());
        ask_on(self.open_channel(None)?, question, FrameKind::Done).await.map(drop)
    }

    /// Asks for the resources that the guest uses.
    pub async fn measure(&self) -> Result<GuestUsage, LinkError> {
        let frame = self
            .ask(|number| Frame::new(number, FrameKind::Measure, bytes::Bytes::new()), FrameKind::GuestUsage)
            .await?;
        Ok(GuestUsage::parse(&frame.payload)?)
    }

    /// Asks which ports are listened on.
    pub async fn ports(&self, by: UseKind) -> Result<PortList, LinkError> {
        let question = |number| Frame::new(number, FrameKind::Ports, bytes::Bytes::new());
        let frame = ask_on(self.channel_as(by)?, question, FrameKind::PortList).await?;
        Ok(PortList::parse(&frame.payload)?)
    }

    async fn ask(&self, question: impl FnOnce(u32) -> Frame, wanted: FrameKind) -> Result<Frame, LinkError> {
        ask_on(self.channel()?, question, wanted).await
    }
}

async fn ask_on(
    mut channel: GuestChannel,
    question: impl FnOnce(u32) -> Frame,
    wanted: FrameKind,
) -> Result<Frame, LinkError> {
    channel.send(question(channel.number())).await?;
    let frame = tokio::time::timeout(REQUEST_DEADLINE, channel.next()).await.map_err(|_| LinkError::Deadline)??;
    channel.finish();
    expect(frame, wanted)
}

impl SessionState {
    pub(super) async fn send(&self, frame: Frame) -> Result<(), LinkError> {
        // The guest may have stopped reading, and callers must not wait for ever.
        let queued = async {
            let bytes = frame.payload.len() as u32;
            let room = self.out_room.clone().acquire_many_owned(bytes).await.map_err(|_| LinkError::Closed)?;
            self.out.send(OutgoingFrame { frame, _room: Some(room) }).await.map_err(|_| LinkError::Closed)
        };
        tokio::time::timeout(REQUEST_DEADLINE, queued).await.unwrap_or(Err(LinkError::Deadline))
    }

    /// Sends an empty frame if there is space. For cancel frames that no caller waits for.
    pub(super) fn send_now(&self, frame: Frame) {
        assert!(frame.payload.is_empty(), "a payload must wait for its room");
        let _ = self.out.try_send(OutgoingFrame { frame, _room: None });
    }

    pub(super) fn close(&self, number: u32) {
        self.table.lock().expect("no holder panics").open.remove(&number);
    }
}

/// Checks a frame's kind. Converts the guest's error.
pub(super) fn expect(frame: Frame, wanted: FrameKind) -> Result<Frame, LinkError> {
    match frame.kind {
        kind if kind == wanted => Ok(frame),
        FrameKind::Error => Err(LinkError::Refused(pandastack_wire_guest::Error::parse(&frame.payload)?.text)),
        found => Err(LinkError::Unexpected { wanted, found }),
    }
}

fn answer<M: Message>(frame: &Frame) -> Result<M, LinkError> {
    let frame = expect(frame.clone(), M::KIND)?;
    Ok(M::parse(&frame.payload)?)
}

/// Does the handshake and sends more frames in the same write. The caller reads the answers to
/// those. Returns the guest's generation.
pub(super) async fn greet(link: &mut impl Link, secret: &[u8], more: &[Frame]) -> Result<(Decoder, u32), LinkError> {
    let mut first = BytesMut::new();
    Hello { generation: GENERATION, secret: secret.to_vec() }.frame(0).encode(&mut first);
    more.iter().for_each(|frame| frame.encode(&mut first));
    link.write_all(&first).await?;
    let mut decoder = Decoder::default();
    let welcome: Welcome = answer(&read_frame(link, &mut decoder).await?)?;
    if welcome.generation == 0 || welcome.generation > GENERATION {
        return Err(LinkError::Generation(welcome.generation));
    }
    tracing::debug!(generation = welcome.generation, "connected to the guest agent");
    Ok((decoder, welcome.generation))
}

async fn read_frame(link: &mut impl Link, decoder: &mut Decoder) -> Result<Frame, LinkError> {
    loop {
        if let Some(frame) = decoder.next_frame()? {
            return Ok(frame);
        }
        if link.read_buf(decoder.buffer()).await? == 0 {
            return Err(LinkError::Closed);
        }
    }
}

async fn write_frames(mut write: WriteHalf<Box<dyn Link>>, mut queue: mpsc::Receiver<OutgoingFrame>) {
    let mut batch = BytesMut::new();
    while let Some(outgoing) = queue.recv().await {
        batch.clear();
        outgoing.frame.encode(&mut batch);
        while batch.len() < BATCH_BYTES
            && let Ok(outgoing) = queue.try_recv()
        {
            outgoing.frame.encode(&mut batch);
        }
        if write.write_all(&batch).await.is_err() {
            return;
        }
    }
}

async fn read_frames(
    mut read: ReadHalf<Box<dyn Link>>,
    mut decoder: Decoder,
    table: &Mutex<ChannelTable>,
) -> LinkError {
    let room = Arc::new(Semaphore::new(LINK_BYTES_MAX));
    loop {
        match decoder.next_frame() {
            Ok(Some(frame)) => {
                if let Err(error) = deliver(table, frame, &room).await {
                    return error;
                }
            }
            Ok(None) => match read.read_buf(decoder.buffer()).await {
                Ok(0) => return LinkError::Closed,
                Ok(_) => {}
                Err(error) => return LinkError::Io(error),
            },
            Err(error) => return LinkError::Frame(error),
        }
    }
}

fn close_channels(table: &Mutex<ChannelTable>) {
    let mut table = table.lock().expect("no holder panics");
    table.closed = true;
    // Dropping the senders ends every channel.
    table.open.clear();
}

async fn deliver(table: &Mutex<ChannelTable>, frame: Frame, room: &Arc<Semaphore>) -> Result<(), LinkError> {
    let inbox = table.lock().expect("no holder panics").open.get(&frame.channel).cloned();
    match inbox {
        Some(inbox) => inbox.put(frame, room).await,
        // The channel may be closed while frames for it are still in flight.
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
