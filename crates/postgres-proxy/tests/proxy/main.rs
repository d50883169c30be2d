//! The proxy over loopback: with a PostgreSQL server and psql, and with a TLS client of our own.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod limits;
mod logins;
mod psql;
mod server;
mod setup;
mod wire;
