//! The Model Context Protocol: PandaStack as tools for agents. The tools are written once over
//! `Api`; `http` serves them at `/mcp` of the server, `stdio` on standard input and output. Never
//! decides about access: every tool is a request with the caller's own credential.

mod api;
mod arguments;
#[cfg(feature = "http")]
mod http;
mod image;
pub mod limits;
mod output;
mod resources;
mod server;
#[cfg(feature = "stdio")]
mod stdio;
mod tools;

#[cfg(feature = "http")]
pub use http::{McpDoor, McpSettings};
#[cfg(feature = "stdio")]
pub use stdio::serve_stdio;
pub use tools::{ToolFilter, Toolset};
