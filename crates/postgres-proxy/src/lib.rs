//! A TLS proxy for PostgreSQL clients: the TLS server name picks the database, then bytes pass both
//! ways between the client and a stream into the database's machine. Knows neither machines nor
//! stores: the server's wiring opens the streams.

mod cancel;
mod connection;
mod databases;
mod figures;
mod frames;
pub mod limits;
mod name;
mod options;
mod proxy;
mod refusal;
mod seats;
mod session;
mod startup;
mod tls;
mod tunnel;

pub use databases::{
    BackendBytes, BackendPort, BackendStart, Databases, OpenPurpose, OpenRefusal, OpenRequest, OpenedBackend,
    QueryActivity, QueryState,
};
pub use figures::{ProxyCounts, ProxyFigures};
pub use name::{DatabaseName, DatabaseNameError, HostSuffix, HostSuffixError};
pub use proxy::{PostgresProxy, ProxyBackends, ProxySettings};
pub use refusal::RefusalReason;
pub use seats::TunnelLimits;
