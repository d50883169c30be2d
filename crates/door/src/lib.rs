//! The front door that control and edge share: connections and their shares, request ids, CORS,
//! rendering of faults, rate limits, idempotency keys, audit entries, metrics of requests. Knows no
//! resource and no database; `DoorBackend` is what it needs from the control plane.

mod address;
mod backend;
mod guard;
mod head_timer;
mod held;
pub mod http;
mod idle;
pub mod limits;
mod once;
mod places;
mod serve;
mod special;
mod transport;

pub use address::ProxyTrust;
pub use backend::{AttemptState, AuditRow, DoorBackend, IdempotencyKey};
pub use guard::{
    EndlessStream, Guard, OperatorLimit, RateSettings, RequestMeters, RequestRates, SANDBOX_ATTRIBUTE, revoked_key,
    shown_prefix,
};
pub use once::{IdempotencyKeys, idempotency_key, request_digest};
pub use places::{Place, PlaceKind, Places};
pub use serve::{ConnectionHandle, PeerAddress, ServeSettings, occupy, serve, serve_tls, serve_with};
pub use tokio_rustls::TlsAcceptor;
pub use transport::with_hsts;
