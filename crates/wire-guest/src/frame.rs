//! Frame header and a push decoder: bytes in, frames out, no I/O. Malformed input is an error,
//! never a panic.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::FRAME_BYTES_MAX;

/// Size of the header before each payload.
pub const HEADER_BYTES: usize = 12;

/// One unit on the link: a 12-byte header (length, channel, kind, flags, zero) and a payload. The
/// payload is raw bytes (output, input, file contents) or one CBOR map with numbered fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub channel: u32,
    pub kind: FrameKind,
    pub flags: FrameFlags,
    pub payload: Bytes,
}

/// Bits in the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameFlags(pub u8);

impl FrameFlags {
    /// No more data follows in this direction of the channel.
    pub const END: FrameFlags = FrameFlags(1);
    pub const NONE: FrameFlags = FrameFlags(0);

    /// Whether the end bit is set.
    pub const fn is_end(self) -> bool {
        self.0 & Self::END.0 != 0
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// What a frame carries. The comment names the payload type. The host opens a connection
        /// with `Hello` on channel 0. Every other request opens a free channel that the host chose,
        /// and the guest ends it with exactly one terminal frame: a reply, `ProcessExit` or
        /// `Error`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum FrameKind { $($(#[$doc])* $name = $number,)* }

        impl FrameKind {
            /// Every kind of this generation.
            pub const ALL: &'static [FrameKind] = &[$(FrameKind::$name,)*];
        }

        impl TryFrom<u8> for FrameKind {
            type Error = FrameError;

            fn try_from(number: u8) -> Result<Self, FrameError> {
                match number { $($number => Ok(FrameKind::$name),)* _ => Err(FrameError::Kind { number }) }
            }
        }
    };
}

kinds! {
    /// host: `Hello`. First frame of a connection.
    Hello = 1,
    /// host: empty. Answered by `Pong` on the same channel, ahead of queued frames.
    Ping = 2,
    /// host: `Rebirth`. Answered by `Reborn`.
    Rebirth = 3,
    /// host: `StartProcess`. Opens a process.
    Start = 16,
    /// host: raw bytes for the process; END closes its standard input.
    Stdin = 17,
    /// host: `Signal` to the process group.
    Signal = 18,
    /// host: `Resize` of the terminal.
    Resize = 19,
    /// both: `Credit`. The receiver has consumed this much data.
    Credit = 20,
    /// host: empty. The caller is gone: kill the process group or drop the transfer. The guest
    /// still sends its terminal frame.
    Cancel = 21,
    /// host, from generation 3: `SpawnProcess`. Answered by `ProcessReport`.
    Spawn = 22,
    /// host, from generation 3: `ListProcesses`. Answered by `ProcessList`.
    Processes = 23,
    /// host, from generation 3: `AttachProcess`. Answered by `OutputPosition`, output, and
    /// `ProcessReport`.
    Attach = 24,
    /// host, from generation 3: `WriteStdin`, then `Data` frames, the last with END. Answered by
    /// `BytesWritten`.
    WriteStdin = 25,
    /// host, from generation 3: `SignalProcess`. Answered by `Done`.
    SignalProcess = 26,
    /// host, from generation 3: `ForgetProcess`. Answered by `Done`.
    Forget = 27,
    /// host: `ReadFile`. Answered by `EntryMetadata`, then `Data` frames, the last with END.
    Read = 32,
    /// host: `WriteFile`, then `Data` frames, the last with END. Answered by `BytesWritten`.
    Write = 33,
    /// both: raw file bytes.
    Data = 34,
    /// host: `PathMessage`. Answered by one or more `DirEntries`, the last with END.
    List = 35,
    /// host: `PathMessage`. Answered by `EntryMetadata` with END.
    Stat = 36,
    /// host: `PathMessage`. Recursive; a missing path succeeds. Answered by `Done`.
    Delete = 37,
    /// host, from generation 3: `CreateDir`. Answered by `Done`.
    MakeDir = 38,
    /// host, from generation 3: `RenamePath`. Answered by `Done`.
    Move = 39,
    /// host, from generation 3: `SetMode`. Answered by `Done`.
    Chmod = 40,
    /// host, from generation 3: `WalkDir`. Answered by one or more `WalkEntries`, the last with
    /// END.
    Walk = 41,
    /// host, from generation 3: `WatchPath`. Answered by `Watching`, then `PathChanges` until
    /// cancelled.
    Watch = 42,
    /// host, from generation 3: `PathMessage`. Answered by `EntryMetadata`, then a tar stream in
    /// `Data` frames, the last with END.
    Pack = 43,
    /// host, from generation 3: `PathMessage` of a folder, then a tar stream in `Data` frames, the
    /// last with END. Answered by `UnpackReply`.
    Unpack = 44,
    /// host: empty. Answered by `PortList`.
    Ports = 48,
    /// host: empty. Answered by `GuestUsage`.
    Measure = 49,
    /// host: empty. Flush and freeze file systems. Answered by `Done`.
    Quiesce = 50,
    /// host: empty. Undo `Quiesce`. Answered by `Done`.
    Thaw = 51,
    /// host: empty. Stop the guest. Answered by `Done` if there is time.
    PowerOff = 52,
    /// host, from generation 2: `VolumeDevices`. Mount each one. Answered by `Done`.
    Mount = 53,
    /// host, from generation 2: `VolumeDevices`. Fill each disk that has grown with the file system
    /// on it. Answered by `Done`.
    Grow = 54,
    /// host, from generation 3: `CodeOpen`. Start a code session, or find the one with that id.
    /// Answered by `CodeOpened`.
    CodeOpen = 64,
    /// host, from generation 3: empty. Answered by `CodeList`.
    CodeSessions = 65,
    /// host, from generation 3: `CodeClose`. Answered by `Done`.
    CodeClose = 66,
    /// host, from generation 3: `CodeRun`, then `Data` frames with the code, the last with END.
    /// When the cell has ended, answered by its `Stdout`, `Stderr` and `Data` (a JSON body), and
    /// then `CodeRan`.
    CodeRun = 67,
    /// host, from generation 4: `CodeWarm`. Keep a warm kernel. Answered by `Done` when it is
    /// ready.
    CodeWarm = 68,
    /// host, from generation 4: empty. Rehearse with warm kernels, and keep a copy ready for the
    /// next session. Answered by `Done`.
    CodeRehearse = 69,

    /// guest: `Welcome`.
    Welcome = 129,
    /// guest: empty.
    Pong = 130,
    /// guest: `Reborn`.
    Reborn = 131,
    /// guest: `ProcessStarted`.
    Started = 144,
    /// guest: raw bytes; END when the pipe closed.
    Stdout = 145,
    /// guest: raw bytes; END when the pipe closed.
    Stderr = 146,
    /// guest: `ProcessExit`. Terminal.
    Exit = 147,
    /// guest: `ProcessReport`. Terminal.
    Process = 148,
    /// guest: `ProcessList`. Terminal.
    ProcessList = 149,
    /// guest: `OutputPosition`.
    Position = 150,
    /// guest: `EntryMetadata`.
    Meta = 160,
    /// guest: `BytesWritten`. Terminal.
    Written = 161,
    /// guest: `DirEntries`.
    Entries = 162,
    /// guest: `WalkEntries`.
    WalkEntries = 163,
    /// guest: empty. Every later change will be reported.
    Watching = 164,
    /// guest: `PathChanges`.
    Changes = 165,
    /// guest: `UnpackReply`. Terminal.
    Unpacked = 166,
    /// guest: `PortList`. Terminal.
    PortList = 176,
    /// guest: `GuestUsage`. Terminal.
    GuestUsage = 177,
    /// guest: empty. Terminal.
    Done = 178,
    /// guest: `CodeOpened`. Terminal.
    CodeOpened = 192,
    /// guest: `CodeList`. Terminal.
    CodeList = 193,
    /// guest: `CodeRan`. Terminal.
    CodeRan = 194,
    /// guest: `Error`. Terminal.
    Error = 255,
}

/// Bytes that are not a frame of this protocol. The connection cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("frame of {length} bytes is larger than {FRAME_BYTES_MAX}")]
    Length { length: u64 },
    #[error("unknown frame kind {number}")]
    Kind { number: u8 },
    #[error("reserved header bytes are {value:#x}, not zero")]
    Reserved { value: u16 },
}

impl Frame {
    /// Makes a frame without flags.
    pub fn new(channel: u32, kind: FrameKind, payload: impl Into<Bytes>) -> Self {
        Self { channel, kind, flags: FrameFlags::NONE, payload: payload.into() }
    }

    /// Sets the end flag.
    pub fn end(mut self) -> Self {
        self.flags = FrameFlags::END;
        self
    }

    /// Appends header and payload to a buffer.
    ///
    /// # Panics
    /// If the payload is over [`FRAME_BYTES_MAX`]: senders must split their data.
    pub fn encode(&self, out: &mut BytesMut) {
        assert!(self.payload.len() <= FRAME_BYTES_MAX, "payload of {} bytes was not split", self.payload.len());
        out.reserve(HEADER_BYTES + self.payload.len());
        out.put_slice(&self.header());
        out.put_slice(&self.payload);
    }

    /// Returns the header alone, for senders that write header and payload without copying.
    pub fn header(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[0..4].copy_from_slice(&(self.payload.len() as u32).to_le_bytes());
        header[4..8].copy_from_slice(&self.channel.to_le_bytes());
        header[8] = self.kind as u8;
        header[9] = self.flags.0;
        header
    }
}

/// Splits a byte stream into frames. Holds at most one unfinished frame.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
}

impl Decoder {
    /// Returns the buffer to append received bytes to.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Takes the next complete frame from the buffer, if there is one.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(header) = self.buffer.get(..HEADER_BYTES) else { return Ok(None) };
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let channel = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let reserved = u16::from_le_bytes([header[10], header[11]]);
        let flags = FrameFlags(header[9]);
        if length as usize > FRAME_BYTES_MAX {
            return Err(FrameError::Length { length: length.into() });
        }
        if reserved != 0 {
            return Err(FrameError::Reserved { value: reserved });
        }
        let kind = FrameKind::try_from(header[8])?;
        if self.buffer.len() < HEADER_BYTES + length as usize {
            self.buffer.reserve(HEADER_BYTES + length as usize - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(HEADER_BYTES);
        let payload = self.buffer.split_to(length as usize).freeze();
        Ok(Some(Frame { channel, kind, flags, payload }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode_all(bytes: &[u8], step: usize) -> Result<Vec<Frame>, FrameError> {
        let mut decoder = Decoder::default();
        let mut frames = Vec::new();
        for chunk in bytes.chunks(step.max(1)) {
            decoder.buffer().extend_from_slice(chunk);
            while let Some(frame) = decoder.next_frame()? {
                frames.push(frame);
            }
        }
        Ok(frames)
    }

    #[test]
    fn refuses_what_is_not_a_frame() {
        assert_eq!(decode_all(&[0xff; 12], 12), Err(FrameError::Length { length: u32::MAX.into() }));
        let mut bad_kind = Frame::new(1, FrameKind::Ping, Bytes::new()).header();
        bad_kind[8] = 99;
        assert_eq!(decode_all(&bad_kind, 12), Err(FrameError::Kind { number: 99 }));
        let mut reserved = Frame::new(1, FrameKind::Ping, Bytes::new()).header();
        reserved[10] = 1;
        assert_eq!(decode_all(&reserved, 12), Err(FrameError::Reserved { value: 1 }));
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_frames(
            parts in proptest::collection::vec((any::<u32>(), 0..FrameKind::ALL.len(), any::<bool>(), proptest::collection::vec(any::<u8>(), 0..600)), 1..8),
            step in 1usize..700,
        ) {
            let frames: Vec<Frame> = parts.into_iter().map(|(channel, kind, end, payload)| {
                let frame = Frame::new(channel, FrameKind::ALL[kind], payload);
                if end { frame.end() } else { frame }
            }).collect();
            let mut bytes = BytesMut::new();
            frames.iter().for_each(|frame| frame.encode(&mut bytes));
            prop_assert_eq!(decode_all(&bytes, step), Ok(frames));
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..4096), step in 1usize..64) {
            let _ = decode_all(&bytes, step);
        }
    }
}
