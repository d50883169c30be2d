//! What our own servers say to each other. Today all roles share one process and the ports are called directly; the same
//! traits get a network form when a fleet arrives.

mod control;
mod host;

pub use control::{Caller, ControlPort, PreviewGrant, WorkspaceId};
pub use host::{
    AuditReport, BootAsk, ByteStream, Ensure, ExecAsk, ExecControl, ExecEvent, ExecSession, FileBody, FileEntry,
    FileKind, ForkAsk, Forked, GuestBytes, GuestStream, Hold, HostEvent, HostPort, HostStatus, LayerView, Lifecycle,
    ListeningPort, Presence, Program, RemovedBy, SandboxView, SealAsk, TemplateView, VolumeView, WriteAsk,
};
