//! Counters of the proxy, for the server's metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::refusal::{HandshakeEnd, RefusalReason};

/// What the proxy counts. The names are those of the metrics.
#[derive(Debug, Default)]
pub struct ProxyFigures {
    active: AtomicU64,
    total: AtomicU64,
    errors: AtomicU64,
    lookup_errors: AtomicU64,
    refused: [AtomicU64; RefusalReason::ALL.len()],
    lost: AtomicU64,
    held: AtomicU64,
    wakes: AtomicU64,
    from_clients: AtomicU64,
    to_clients: AtomicU64,
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
    /// `pandastack_dbproxy_refused_connections_total`: clients that were told why, by reason in the
    /// order of [`RefusalReason::ALL`].
    pub refused: [u64; RefusalReason::ALL.len()],
    /// `pandastack_dbproxy_failed_handshakes_total`: clients that left, were too slow, or do not
    /// speak the protocol.
    pub failed_handshakes: u64,
    /// `pandastack_dbproxy_held_connections`: clients that wait now until their database is open.
    pub held_connections: u64,
    /// `pandastack_dbproxy_wakes_total`: connections that found their database asleep.
    pub wakes: u64,
    /// `pandastack_dbproxy_bytes_total`, from clients and to them.
    pub bytes: [u64; 2],
}

impl ProxyFigures {
    /// Reads all counters.
    pub fn counts(&self) -> ProxyCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ProxyCounts {
            active_connections: read(&self.active),
            total_connections: read(&self.total),
            errors: read(&self.errors),
            catalog_lookup_errors: read(&self.lookup_errors),
            refused: self.refused.each_ref().map(read),
            failed_handshakes: read(&self.lost),
            held_connections: read(&self.held),
            wakes: read(&self.wakes),
            bytes: [read(&self.from_clients), read(&self.to_clients)],
        }
    }

    pub(crate) fn accepted(&self) {
        self.total.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that ended before its client was logged in.
    pub(crate) fn failed(&self, end: &HandshakeEnd) {
        let reason = match end {
            HandshakeEnd::Refused(refusal) => refusal.reason(),
            HandshakeEnd::Lost(_) => None,
        };
        match reason {
            Some(reason) => self.refused(reason),
            None => {
                self.errors.fetch_add(1, Ordering::Relaxed);
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn refused(&self, reason: RefusalReason) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        self.refused[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn not_found(&self) {
        self.lookup_errors.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn woke(&self) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn came_from_client(&self, bytes: usize) {
        self.from_clients.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn went_to_client(&self, bytes: usize) {
        self.to_clients.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn tunnel_opened(&self) {
        self.active.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn tunnel_ended(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a client that waits, until the result is dropped.
    pub(crate) fn hold(&self) -> HeldClient<'_> {
        self.held.fetch_add(1, Ordering::Relaxed);
        HeldClient(self)
    }
}

/// A client that waits for its database.
pub(crate) struct HeldClient<'a>(&'a ProxyFigures);

impl Drop for HeldClient<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}
