//! The edge through its real router and its real server, over a real socket; control and host are stubs.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod carry;
mod exec;
mod files;
mod guest;
mod logs;
mod previews;
mod proxy;
mod rig;
mod socket;
mod stream;
mod stub;
