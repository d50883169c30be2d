//! Tests of the edge through its real router and server, over a real socket. Control and host are
//! stubs.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod carry;
mod databases;
mod diff;
mod exec;
mod files;
mod guest;
mod logs;
mod mcp;
mod previews;
mod processes;
mod proxy;
mod repl;
mod rig;
mod slow;
mod socket;
mod stream;
mod stub_control;
mod trees;
