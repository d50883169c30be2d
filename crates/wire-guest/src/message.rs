//! The structured payloads. Fields are numbered CBOR map entries: unknown numbers are skipped,
//! absent ones are `None`. Never reuse a number.

use bytes::Bytes;
use minicbor::{Decode, Encode};

use crate::{Frame, FrameKind, KernelLanguage};

/// A payload that does not decode as its kind requires.
#[derive(Debug, thiserror::Error)]
#[error("malformed {kind:?} payload")]
pub struct BadMessage {
    kind: FrameKind,
    #[source]
    cause: minicbor::decode::Error,
}

/// A structured payload and the kind of frame that carries it.
pub trait Message: Encode<()> + for<'a> Decode<'a, ()> {
    const KIND: FrameKind;

    /// Puts the message into a frame.
    fn frame(&self, channel: u32) -> Frame {
        let bytes = minicbor::to_vec(self).expect("writing to a Vec cannot fail");
        Frame::new(channel, Self::KIND, Bytes::from(bytes))
    }

    /// Parses the message from a frame's payload.
    fn parse(payload: &[u8]) -> Result<Self, BadMessage> {
        minicbor::decode(payload).map_err(|cause| BadMessage { kind: Self::KIND, cause })
    }
}

macro_rules! message {
    ($($name:ty => $kind:ident),* $(,)?) => { $(impl Message for $name { const KIND: FrameKind = FrameKind::$kind; })* };
}

message! {
    Hello => Hello, Welcome => Welcome, Rebirth => Rebirth, Reborn => Reborn, StartProcess => Start, ProcessStarted => Started,
    Signal => Signal, Resize => Resize, Credit => Credit, ProcessExit => Exit, ReadFile => Read, WriteFile => Write, EntryMetadata => Meta,
    BytesWritten => Written, DirEntries => Entries, PortList => PortList, GuestUsage => GuestUsage, Error => Error,
}

/// Opens a connection. The secret is that of the last rebirth, or of the bake before the first one.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Hello {
    /// Newest generation the host speaks.
    #[n(0)]
    pub generation: u32,
    #[cbor(n(1), with = "minicbor::bytes")]
    pub secret: Vec<u8>,
}

/// Accepts a connection.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Welcome {
    /// Generation that the guest speaks; the host adapts to it.
    #[n(0)]
    pub generation: u32,
    /// Version of the agent, for humans.
    #[n(1)]
    pub agent: String,
}

/// Sent after every restore, before the first user byte.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Rebirth {
    /// Wall clock, nanoseconds since the Unix epoch.
    #[n(0)]
    pub wall_clock_ns: u64,
    /// Fresh entropy for the kernel's random generator, which reseeds at once.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub entropy: Vec<u8>,
    /// New secret of the link; replaces the old one.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub secret: Vec<u8>,
    /// Present for a create and a fork, absent for a wake.
    #[n(3)]
    pub identity: Option<Identity>,
}

/// Properties that differ between sandboxes of one layer.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Identity {
    #[n(0)]
    pub hostname: String,
    /// 32 lowercase hex digits.
    #[n(1)]
    pub machine_id: String,
    /// Environment of every process started from now on.
    #[n(2)]
    pub env: Vec<EnvVariable>,
    /// Present only if the guest's addresses must change.
    #[n(3)]
    pub network: Option<InterfaceAddresses>,
}

/// Addresses of the guest's one interface.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct InterfaceAddresses {
    /// With prefix length, as `172.16.0.2/30`.
    #[n(0)]
    pub address: String,
    #[n(1)]
    pub gateway: String,
    #[n(2)]
    pub nameserver: String,
}

/// One environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct EnvVariable {
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub value: String,
}

/// Confirms a rebirth.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Reborn {
    /// The guest's wall clock after setting it.
    #[n(0)]
    pub wall_clock_ns: u64,
    /// Generation that the guest speaks; absent before generation 3.
    #[n(1)]
    pub generation: Option<u32>,
}

/// Command to run.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum CommandLine {
    /// Run through `/bin/sh -c`.
    #[n(0)]
    Shell(#[n(0)] String),
    /// Run as it is, looked up in PATH.
    #[n(1)]
    Argv(#[n(0)] Vec<String>),
}

/// Starts a process in its own session and process group.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct StartProcess {
    #[n(0)]
    pub program: CommandLine,
    #[n(1)]
    pub cwd: Option<String>,
    /// Added to the sandbox's environment, and overrides it.
    #[n(2)]
    pub env: Vec<EnvVariable>,
    /// Name or number, with an optional `:group`; root if absent.
    #[n(3)]
    pub user: Option<String>,
    /// Whether `Stdin` frames follow; otherwise standard input is empty.
    #[n(4)]
    pub stdin: bool,
    /// The group gets TERM after this time, and KILL after a grace period.
    #[n(5)]
    pub deadline_ms: Option<u64>,
    /// Size of a terminal, used instead of pipes. All output is `Stdout`; input is always open.
    #[n(6)]
    pub terminal: Option<Resize>,
    /// The last argument is a program of this language: a copy of the warm kernel may run it
    /// instead of a new interpreter. Older agents ignore it.
    #[n(7)]
    pub warm: Option<KernelLanguage>,
}

/// Confirms that the process runs.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ProcessStarted {
    #[n(0)]
    pub pid: u32,
}

/// A signal for the process group.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Signal {
    #[n(0)]
    pub number: i32,
}

/// A terminal's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Resize {
    #[n(0)]
    pub rows: u16,
    #[n(1)]
    pub cols: u16,
}

/// Permission to send this many more data bytes on the channel. The output streams of a process
/// share one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Credit {
    #[n(0)]
    pub bytes: u32,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ProcessExit {
    /// Exit status, or 128 + N after signal N.
    #[n(0)]
    pub code: i32,
    /// Whether our deadline ended it.
    #[n(1)]
    pub timed_out: bool,
    /// The signal that ended it; absent before generation 3.
    #[n(2)]
    pub signal: Option<i32>,
}

/// Asks for a file's contents.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ReadFile {
    #[n(0)]
    pub path: String,
}

/// Announces a file's new contents. Parents are created; the write is atomic.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct WriteFile {
    #[n(0)]
    pub path: String,
    /// Permission bits. If absent, 0644 or those of the replaced file.
    #[n(1)]
    pub mode: Option<u32>,
}

/// The only argument of `List`, `Stat`, `Delete`, `Pack` and `Unpack`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct PathMessage {
    #[n(0)]
    pub path: String,
}

impl PathMessage {
    /// Puts the path into a frame of one of the kinds that take one.
    pub fn frame(&self, channel: u32, kind: FrameKind) -> Frame {
        Frame::new(channel, kind, minicbor::to_vec(self).expect("writing to a Vec cannot fail"))
    }

    /// Parses the path from the payload of a frame of the given kind.
    pub fn parse(kind: FrameKind, payload: &[u8]) -> Result<Self, BadMessage> {
        minicbor::decode(payload).map_err(|cause| BadMessage { kind, cause })
    }
}

/// Type of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum DirEntryKind {
    #[n(0)]
    File,
    #[n(1)]
    Directory,
    #[n(2)]
    Symlink,
    #[n(3)]
    Other,
}

/// One file or directory.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct DirEntry {
    /// Base name.
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub kind: DirEntryKind,
    #[n(2)]
    pub size: u64,
    /// Permission bits.
    #[n(3)]
    pub mode: u32,
    /// Unix seconds.
    #[n(4)]
    pub modified: i64,
    /// Target of a symlink.
    #[n(5)]
    pub target: Option<String>,
}

/// A single entry.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct EntryMetadata {
    #[n(0)]
    pub entry: DirEntry,
}

/// A part of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct DirEntries {
    #[n(0)]
    pub entries: Vec<DirEntry>,
}

/// A finished write.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct BytesWritten {
    #[n(0)]
    pub bytes: u64,
}

/// A port that a process listens on.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct PortReport {
    #[n(0)]
    pub port: u16,
    /// Only reachable from inside the guest.
    #[n(1)]
    pub loopback_only: bool,
    #[n(2)]
    pub process: Option<String>,
}

/// Every listening TCP port but the agent's own.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct PortList {
    #[n(0)]
    pub ports: Vec<PortReport>,
}

/// Resource usage of the guest.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct GuestUsage {
    /// CPU time of all processes since boot.
    #[n(0)]
    pub cpu_ms: u64,
    #[n(1)]
    pub memory_total: u64,
    #[n(2)]
    pub memory_available: u64,
    #[n(3)]
    pub disk_total: u64,
    #[n(4)]
    pub disk_free: u64,
    #[n(5)]
    pub processes: u32,
    #[n(6)]
    pub uptime_ms: u64,
}

/// The volumes of a sandbox, in the order of its devices: the first is `/dev/vdb`, the next
/// `/dev/vdc`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct VolumeDevices {
    #[n(0)]
    pub volumes: Vec<VolumeDevice>,
}

impl VolumeDevices {
    /// Puts the volumes into a frame of one of the kinds that take them.
    pub fn frame(&self, channel: u32, kind: FrameKind) -> Frame {
        Frame::new(channel, kind, minicbor::to_vec(self).expect("writing to a Vec cannot fail"))
    }

    /// Parses the volumes from the payload of a frame of the given kind.
    pub fn parse(kind: FrameKind, payload: &[u8]) -> Result<Self, BadMessage> {
        minicbor::decode(payload).map_err(|cause| BadMessage { kind, cause })
    }
}

/// One durable disk.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct VolumeDevice {
    /// Serial number of the disk's device.
    #[n(0)]
    pub serial: String,
    /// Mount point; created if it is missing.
    #[n(1)]
    pub path: String,
    #[n(2)]
    pub read_only: bool,
    /// Size of the disk in bytes. The guest waits until its kernel reports this size.
    #[n(3)]
    pub size: u64,
}

/// Why a request failed in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ErrorKind {
    /// The request is not valid (relative path, empty command, unknown kind).
    #[n(0)]
    Invalid,
    /// No such file, user or process.
    #[n(1)]
    Missing,
    /// A directory where a file is needed, or the reverse.
    #[n(2)]
    WrongType,
    /// The guest's kernel refused.
    #[n(3)]
    Denied,
    /// No space or memory left in the guest.
    #[n(4)]
    Full,
    /// Anything else; the text gives the reason.
    #[n(5)]
    Failed,
    /// The secret is wrong.
    #[n(6)]
    Secret,
    /// The channel was cancelled by the host.
    #[n(7)]
    Cancelled,
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Error {
    #[n(0)]
    pub kind: ErrorKind,
    #[n(1)]
    pub text: String,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unknown_fields_are_skipped_and_missing_ones_are_none() {
        // A newer host adds field 9; an older one omits field 3.
        let mut bytes = Vec::new();
        let mut out = minicbor::Encoder::new(&mut bytes);
        out.map(4).unwrap().u8(0).unwrap().u64(7).unwrap();
        out.u8(1)
            .unwrap()
            .bytes(b"entropy")
            .unwrap()
            .u8(2)
            .unwrap()
            .bytes(b"secret")
            .unwrap()
            .u8(9)
            .unwrap()
            .str("new")
            .unwrap();
        let message = Rebirth::parse(&bytes).unwrap();
        assert_eq!((message.wall_clock_ns, message.identity), (7, None));
    }

    proptest! {
        #[test]
        fn garbage_payloads_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            let _ = (Hello::parse(&bytes).is_ok(), Rebirth::parse(&bytes).is_ok(), StartProcess::parse(&bytes).is_ok());
            let _ = (DirEntries::parse(&bytes).is_ok(), PortList::parse(&bytes).is_ok(), Error::parse(&bytes).is_ok());
        }
    }
}
