//! Typed client of the public API. Speaks only `wire-public`; keeps no state but a connection pool.

mod builds;
mod client;
mod config;
mod error;
mod events;
mod exec;
mod files;
mod forks;
mod host;
mod lifecycle;
mod ports;
mod sandboxes;
mod snapshots;
mod terminal;
mod volumes;

pub use builds::{BuildForm, BuildLog};
pub use client::Client;
pub use config::{Config, ConfigError};
pub use error::ClientError;
pub use exec::{ExecOutput, ExecStream};
pub use pandastack_wire_public as wire;
pub use terminal::{Keyboard, Screen, Shown, TerminalSize};
