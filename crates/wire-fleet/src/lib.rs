//! Interfaces between our own servers. Today all roles share one process and the ports are called
//! directly. A fleet will get a network form of the same traits.

mod code;
mod control;
mod host;
mod key;
mod process;
#[cfg(feature = "stub")]
pub mod stub;
mod tree;

pub use code::{CellAsk, CellEnd, CellEnded, CellEvent, CellStream, CodeSessionView};
pub use control::{Caller, ControlPort, FIRST_WORKSPACE, PreviewGrant, WorkspaceId};
pub use host::{
    AuditReport, BootAsk, ByteStream, Cause, ConsoleAsk, Ensure, ExecAsk, ExecControl, ExecEvent, ExecSession,
    FileBody, FileEntry, FileKind, ForkAsk, Forked, GuestBytes, GuestStream, Hold, HostEvent, HostPort, HostStatus,
    LayerView, Lifecycle, ListeningPort, MachineUsage, Presence, Program, RemovedBy, SandboxView, SealAsk,
    TemplateView, VolumeView, WriteAsk,
};
pub use key::{CallerKey, WeakCallerKey};
pub use process::{
    Afterwards, AttachAsk, OutputStep, OutputStream, ProcessEnd, ProcessNumber, ProcessPort, ProcessView, SpawnAsk,
    Until,
};
pub use tree::{Change, ChangeKind, ChangeStream, InTheWay, Reach, TreePort, Unpacked, WalkAsk, Walked};
