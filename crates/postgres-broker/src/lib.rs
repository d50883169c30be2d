//! SQL over HTTP for one tenant's PostgreSQL: queries, statements, transactions and the list of
//! databases; and statements of the platform itself. It runs on the server and logs in as the
//! tenant's role. Knows neither control nor machines: streams come from `Connect`, and whoever
//! calls has checked the token.

mod array;
mod body;
mod broker;
mod catalog;
mod connect;
mod direct;
mod fault;
mod health;
mod job;
pub mod limits;
mod memory;
mod param;
mod pool;
mod request;
mod session;
mod startup;
#[cfg(test)]
mod tests;
mod value;

pub use broker::{Broker, BrokerTarget, unhealthy};
pub use connect::{Connect, ConnectRefused, DatabaseStream, Login};
pub use direct::{DirectFailure, DirectSession, password_verifier};
