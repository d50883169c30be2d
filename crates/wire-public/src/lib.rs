//! What users see: request and response types, the list of endpoints, fault codes and their statuses, event-stream text.
//! Never does I/O; the `http` feature adds what the two doors share when they speak these types over HTTP.

pub mod endpoint;
mod exec;
mod failure;
mod file;
#[cfg(feature = "http")]
pub mod http;
mod identity;
pub mod limits;
mod sandbox;
pub mod sse;
mod template;
mod text;
mod time;

pub use exec::{Command, ExecChunk, ExecExit, ExecFailure, ExecRequest, ExecResponse, ExecSpec, exec_timeout};
pub use failure::{ErrorBody, Reply, reply};
pub use file::{DirListing, Entry, Written, checked_path};
pub use identity::{Health, Me, Version};
pub use sandbox::{CreateSandbox, Sandbox, visible_metadata};
pub use template::Template;
pub use text::TextTail;
pub use time::rfc3339;
