//! Interfaces between our own servers. Today all roles share one process and the ports are called
//! directly. A fleet will get a network form of the same traits.

mod code;
mod control;
mod gateway;
mod host;
mod key;
mod no_host;
mod process;
#[cfg(feature = "stub")]
pub mod stub;
mod tree;
mod usage;

pub use code::{CellEnd, CellEnded, CellEvent, CellParams, CellStream, CodeSessionView};
pub use control::{
    AuthMethod, Caller, CallerUser, ControlPort, Credential, DatabaseLogin, FIRST_WORKSPACE, PreviewGrant, WorkspaceId,
    WorkspaceRate,
};
pub use gateway::{GATEWAY_PORT, GatewayService};
pub use host::{
    AuditReport, BootParams, ByteStream, ChangeCause, ConsoleRange, EnsureParams, ExecControl, ExecEvent, ExecParams,
    ExecSession, FileBody, FileEntry, FileKind, ForkOutcome, ForkParams, GuestBytes, GuestStream, HostEvent, HostPort,
    HostStatus, IdlePolicy, LayerHold, LayerView, ListeningPort, MachineUsage, Presence, Program, RecordedSandbox,
    RemovedBy, SandboxView, SealParams, TemplateView, UseKind, VolumeView, WriteParams,
};
pub use key::{CallerKey, WeakCallerKey};
pub use no_host::NoHost;
pub use process::{
    AttachParams, FollowUntil, OutputEvent, ProcessEnd, ProcessNumber, ProcessOutputStream, ProcessPort, ProcessView,
    SpawnParams, StdinAfterWrite,
};
pub use tree::{
    ExistingTarget, FileChange, FileChangeKind, FileChangeStream, PathScope, TreePort, UnpackSummary, WalkParams,
    WalkResult,
};
pub use usage::{MachineEvent, MachineFact, UsageCursor, UsagePage};
