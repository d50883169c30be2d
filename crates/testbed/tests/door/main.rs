//! The whole server on fake machines, through its public door: every route, with the wrong tenant,
//! with wrong bytes, and with clients and guests that disconnect during a request.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod bodies;
mod deaths;
mod descriptors;
mod keys;
mod once;
mod people;
mod raw;
mod rig;
mod routes;
mod shares;
mod spans;
mod strangers;
mod tools;
mod trace;

use std::time::Duration;

/// Timeout for anything that should happen by itself.
const SOON: Duration = Duration::from_secs(60);
