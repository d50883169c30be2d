//! Counters of the proxy, for the server's metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the proxy counts. The names are those of the metrics.
#[derive(Debug, Default)]
pub struct ProxyFigures {
    active: AtomicU64,
    total: AtomicU64,
    errors: AtomicU64,
    lookup_errors: AtomicU64,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyCounts {
    /// `pandastack_dbproxy_active_connections`: tunnels that are open.
    pub active_connections: u64,
    /// `pandastack_dbproxy_total_connections_total`: connections that were accepted.
    pub total_connections: u64,
    /// `pandastack_dbproxy_errors_total`: connections that ended before their tunnel.
    pub errors: u64,
    /// `pandastack_dbproxy_catalog_lookup_errors_total`: databases that were not found.
    pub catalog_lookup_errors: u64,
}

impl ProxyFigures {
    /// Reads all counters.
    pub fn counts(&self) -> ProxyCounts {
        ProxyCounts {
            active_connections: self.active.load(Ordering::Relaxed),
            total_connections: self.total.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            catalog_lookup_errors: self.lookup_errors.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn accepted(&self) {
        self.total.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn not_found(&self) {
        self.lookup_errors.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn tunnel_opened(&self) {
        self.active.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn tunnel_ended(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
    }
}
