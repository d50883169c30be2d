//! What users see: request and response types, the list of endpoints, fault codes and their statuses, event-stream text.
//! Never does I/O; the `http` feature adds what the two doors share when they speak these types over HTTP.

mod audit;
mod code;
mod egress;
pub mod endpoint;
mod event;
mod exec;
mod failure;
mod file;
mod fork;
#[cfg(feature = "http")]
pub mod http;
mod identity;
mod lifecycle;
pub mod limits;
pub mod metadata;
mod port;
mod preview;
mod sandbox;
mod snapshot;
mod socket;
pub mod sse;
mod template;
mod text;
mod time;
mod volume;

pub use audit::Audit;
pub use code::{
    CODE_LANGUAGES, CellResult, CellSpec, CodeSession, Interpreter, MimeBundle, OnceSpec, OpenSession, RanOnce,
    RunCell, RunOnce, cell_timeout,
};
pub use egress::{EgressList, SetEgress, egress_list};
pub use event::{Event, EventList};
pub use exec::{Command, ExecChunk, ExecExit, ExecFailure, ExecRequest, ExecResponse, ExecSpec, exec_timeout};
pub use failure::{ErrorBody, PORT_BROKEN, PORT_CLOSED, Reply, WAKE_FAILED, reply};
pub use file::{DirListing, Entry, Written, checked_path};
pub use fork::{FamilyTree, Fork, ForkFailure, ForkRequest, ForkTree, ForkWish, PromoteRequest, Promotion, TreeNode};
pub use identity::{Health, Me, Version};
pub use lifecycle::{Lifecycle, LifecycleChange, SetLifecycle, Status};
pub use metadata::visible_metadata;
pub use port::{DeclarePort, DeclaredPort, Port, declared_key, declared_ports, is_hidden, proxy_path};
pub use preview::{Preview, PreviewAsk, PreviewRequest, RefusedPath, preview_path};
pub use sandbox::{CreateSandbox, Sandbox, SandboxAsk, Start, checked_ttl};
pub use snapshot::{Snapshot, SnapshotList};
pub use socket::{ExecFrame, ExecNews, OutputStream, TerminalFrame, TerminalNews, socket_text, terminal_side};
pub use template::Template;
pub use text::TextTail;
pub use time::rfc3339;
pub use volume::{CreateVolume, GrowVolume, NamedMount, Volume, VolumeAttachment, VolumeName};
