//! The whole server on fake machines, through its public door: every route, asked by the wrong
//! people, with the wrong bytes, and by clients and guests that go away in the middle.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod bodies;
mod deaths;
mod descriptors;
mod keys;
mod once;
mod raw;
mod rig;
mod routes;
mod shares;
mod slow;
mod spans;
mod strangers;
mod trace;

use std::time::Duration;

/// How long anything may take that should happen by itself.
const SOON: Duration = Duration::from_secs(20);
