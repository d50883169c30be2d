//! The tests of `tests/control` on a PostgreSQL database. `scripts/test` starts the server; for one
//! test see CONTRIBUTING.md.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../control/audit.rs"]
mod audit;
mod backend;
#[path = "../control/billing.rs"]
mod billing;
#[path = "../control/bodies.rs"]
mod bodies;
#[path = "../control/build_start.rs"]
mod build_start;
#[path = "../control/builds.rs"]
mod builds;
#[path = "../control/contract/mod.rs"]
mod contract;
#[path = "../control/cookies.rs"]
mod cookies;
#[path = "../control/database_prepare.rs"]
mod database_prepare;
#[path = "../control/databases.rs"]
mod databases;
mod deep;
#[path = "../control/egress.rs"]
mod egress;
#[path = "../control/events.rs"]
mod events;
#[path = "../control/forks.rs"]
mod forks;
#[path = "../control/held.rs"]
mod held;
#[path = "../control/keys.rs"]
mod keys;
#[path = "../control/lifecycle.rs"]
mod lifecycle;
#[path = "../control/limits.rs"]
mod limits;
#[path = "../control/logins.rs"]
mod logins;
#[path = "../control/mail.rs"]
mod mail;
#[path = "../control/metering.rs"]
mod metering;
#[path = "../control/migrations.rs"]
mod migrations;
#[path = "../control/once.rs"]
mod once;
#[path = "../control/open.rs"]
mod open;
#[path = "../control/orgs.rs"]
mod orgs;
#[path = "../control/orphans.rs"]
mod orphans;
#[path = "../control/people.rs"]
mod people;
#[path = "../control/ports.rs"]
mod ports;
#[path = "../control/previews.rs"]
mod previews;
#[path = "../control/promote.rs"]
mod promote;
#[path = "../control/quotas.rs"]
mod quotas;
#[path = "../control/receiver.rs"]
mod receiver;
#[path = "../control/refusals.rs"]
mod refusals;
#[path = "../control/repair.rs"]
mod repair;
#[path = "../control/rig.rs"]
mod rig;
#[path = "../control/snapshots.rs"]
mod snapshots;
#[path = "../control/sso.rs"]
mod sso;
#[path = "../control/states.rs"]
mod states;
#[path = "../control/stripe.rs"]
mod stripe;
#[path = "../control/two_servers.rs"]
mod two_servers;
#[path = "../control/volumes.rs"]
mod volumes;
#[path = "../control/watch.rs"]
mod watch;
#[path = "../control/webhook_delivery.rs"]
mod webhook_delivery;
#[path = "../control/webhook_trust.rs"]
mod webhook_trust;
#[path = "../control/webhooks.rs"]
mod webhooks;
#[path = "../control/workspace_events.rs"]
mod workspace_events;
