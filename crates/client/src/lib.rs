//! Typed client of the public API. Uses only the types of `wire-public`. Its only state is a
//! connection pool.

mod billing;
mod broker;
mod builds;
mod client;
mod code;
mod config;
mod contexts;
mod databases;
mod error;
mod events;
mod exec;
mod files;
mod forks;
mod host;
mod keys;
mod lifecycle;
mod logins;
mod members;
mod orgs;
mod plain;
mod ports;
mod processes;
mod sandboxes;
mod saved;
mod snapshots;
#[cfg(test)]
mod stand_in;
mod terminal;
mod trees;
mod trust;
mod volumes;
mod watch;
mod webhooks;
mod workspace_events;

pub use billing::UsageQuery;
pub use broker::{
    BrokerDatabase, BrokerHealth, BrokerOverview, DatabaseBroker, SqlAffected, SqlColumn, SqlQuery, SqlResults,
    SqlRows, SqlStatement, StatementResult,
};
pub use builds::{BuildForm, BuildLog};
pub use client::Client;
pub use config::{Config, ConfigError};
pub use contexts::SavedContext;
pub use error::ClientError;
pub use exec::{ExecOutput, ExecStream};
pub use pandastack_wire_public as wire;
pub use plain::{PlainAnswer, PlainRequest};
pub use processes::{FollowedEvent, FollowedProcess};
pub use reqwest::Body;
pub use saved::SavedConfig;
pub use terminal::{TerminalEvent, TerminalInput, TerminalOutput, TerminalSize};
pub use watch::{AuditQuery, SandboxStream};
pub use workspace_events::{WorkspaceNews, WorkspaceStream};
