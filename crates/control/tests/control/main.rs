//! The control plane through its real router, a real socket and a real database. Only the host is a
//! stub.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod bodies;
mod build_start;
mod builds;
mod docs;
mod egress;
mod events;
mod forks;
mod keys;
mod lifecycle;
mod limits;
mod once;
mod open;
mod ports;
mod previews;
mod promote;
mod receiver;
mod refusals;
mod repair;
mod rig;
mod snapshots;
mod states;
mod volumes;
mod watch;
mod webhook_delivery;
mod webhook_trust;
mod webhooks;
