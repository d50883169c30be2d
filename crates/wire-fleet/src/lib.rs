//! What our own servers say to each other. Today all roles share one process and the ports are called directly; the same
//! traits get a network form when a fleet arrives.

mod control;
mod host;

pub use control::{Caller, ControlPort, WorkspaceId};
pub use host::{
    ByteStream, Ensure, ExecAsk, ExecControl, ExecEvent, ExecSession, FileBody, FileEntry, FileKind, HostEvent,
    HostPort, HostStatus, Program, SandboxView, TemplateView, WriteAsk,
};
