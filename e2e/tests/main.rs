//! Tests against built binaries and real machines, as one program: forty programs took minutes to
//! build and link. Each module is a topic. A test in a module called `deep` runs only with `make
//! test-deep`.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is the test's failure")]

mod agent;
mod bake;
mod billing;
mod builds;
mod conformance_qemu;
mod contradictions;
mod deep;
mod disk;
mod docs_page;
mod egress;
mod egress_crash;
mod faults;
mod files;
mod identity;
mod images;
mod isolation;
mod jail;
mod jail_server;
mod keys;
mod killed;
mod lifecycle_api;
mod links;
mod modes;
mod openapi;
mod people;
mod previews;
mod processes;
mod published;
mod quickstart;
mod rebirth;
mod repl;
mod sdk;
mod server;
mod severed;
mod sockets;
mod state;
mod strays;
mod telemetry;
mod template_cli;
mod two_servers;
mod usage;
mod volumes;
mod watching;
mod webhooks;
