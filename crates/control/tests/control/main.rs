//! The control plane through its real router, a real socket and a real SQLite database. Only
//! the host is a stub. `tests/postgres` runs the same tests on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod audit;
#[path = "sqlite.rs"]
mod backend;
mod billing;
mod bodies;
mod build_start;
mod builds;
mod contract;
mod cookies;
mod database_care;
mod database_crashes;
mod database_prepare;
mod databases;
mod docs;
mod egress;
mod events;
mod file;
mod forks;
mod held;
mod keys;
mod lifecycle;
mod limits;
mod logins;
mod mail;
mod metering;
mod migrations;
mod once;
mod open;
mod orgs;
mod orphans;
mod people;
mod ports;
mod previews;
mod promote;
mod quotas;
mod receiver;
mod refusals;
mod repair;
mod rig;
mod snapshots;
mod sso;
mod states;
mod stripe;
mod two_servers;
mod volumes;
mod watch;
mod webhook_delivery;
mod webhook_trust;
mod webhooks;
mod workspace_events;
