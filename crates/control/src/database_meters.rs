//! Metrics of managed databases: their states, the proxy of PostgreSQL clients and the archive.
//! They are counted elsewhere and copied here. No label names a tenant or a database.

use std::sync::{Arc, atomic::Ordering};

use pandastack_postgres_archive::ArchiveFigures;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

use crate::app::GoldenCounts;

/// Reads the counters of the proxy.
pub type DatabaseProxyReader = Arc<dyn Fn() -> DatabaseProxyReading + Send + Sync>;

/// What the proxy of PostgreSQL clients counted. The proxy explains each figure.
#[derive(Clone, Debug, Default)]
pub struct DatabaseProxyReading {
    pub active_connections: u64,
    pub held_connections: u64,
    pub total_connections: u64,
    pub errors: u64,
    pub catalog_lookup_errors: u64,
    pub failed_handshakes: u64,
    pub wakes: u64,
    /// By reason.
    pub refused: Vec<(&'static str, u64)>,
    /// From clients and to them.
    pub bytes: [u64; 2],
}

/// Values that are read when the metrics are requested.
#[derive(Clone, Debug, Default)]
pub struct DatabaseReading {
    pub statuses: Vec<(&'static str, u64)>,
    pub proxy: DatabaseProxyReading,
    pub archive: ArchiveFigures,
    pub golden: GoldenCounts,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DatabaseStatusLabel {
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirectionLabel {
    direction: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    result: &'static str,
}

/// Meters of managed databases.
#[derive(Default)]
pub struct DatabaseMeters {
    databases: Family<DatabaseStatusLabel, Gauge>,
    active: Gauge,
    held: Gauge,
    connections: Counter,
    errors: Counter,
    lookup_errors: Counter,
    failed_handshakes: Counter,
    wakes: Counter,
    refused: Family<ReasonLabel, Counter>,
    bytes: Family<DirectionLabel, Counter>,
    spooled: Counter,
    spooled_bytes: Counter,
    uploads: Family<OutcomeLabel, Counter>,
    uploaded_bytes: Counter,
    base_backups: Family<OutcomeLabel, Counter>,
    spool: Gauge,
    behind: Gauge,
    preparations: Family<OutcomeLabel, Counter>,
    preparing: Gauge,
}

impl DatabaseMeters {
    /// Adds the meters to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("databases", "Managed databases by status", self.databases.clone());
        let about = "Machines that databases of a template start from, by result of the attempt to make one";
        registry.register("database_preparations", about, self.preparations.clone());
        registry.register("database_preparing", "Such machines that are being made now", self.preparing.clone());

        let part = registry.sub_registry_with_prefix("dbproxy");
        part.register("active_connections", "Open connections of clients", self.active.clone());
        let about = "Connections of clients that wait until their database is open";
        part.register("held_connections", about, self.held.clone());
        part.register("total_connections", "Accepted connections of clients", self.connections.clone());
        part.register("errors", "Connections that ended before they had a database", self.errors.clone());
        let about = "Connections to databases that do not exist or cannot be reached";
        part.register("catalog_lookup_errors", about, self.lookup_errors.clone());
        let about = "Clients that left, were too slow, or did not speak the protocol";
        part.register("failed_handshakes", about, self.failed_handshakes.clone());
        part.register("wakes", "Connections that found their database asleep", self.wakes.clone());
        part.register("refused_connections", "Connections that were refused, by reason", self.refused.clone());
        let about = "Bytes that passed: in from clients, out to them";
        part.register("bytes", about, self.bytes.clone());

        let part = registry.sub_registry_with_prefix("database_archive");
        let about = "Files of the log that came from databases";
        part.register("spooled_files", about, self.spooled.clone());
        part.register("spooled_bytes", "Bytes of these files", self.spooled_bytes.clone());
        part.register("uploads", "Files of the log brought to the store, by result", self.uploads.clone());
        part.register("uploaded_bytes", "Bytes that reached the store", self.uploaded_bytes.clone());
        part.register("base_backups", "Base backups by result", self.base_backups.clone());
        let about = "Files of the log that wait for the store";
        part.register_with_unit("spool", about, Unit::Bytes, self.spool.clone());
        let about = "How long the oldest file of any database has waited for the store";
        part.register_with_unit("behind", about, Unit::Seconds, self.behind.clone());
    }

    /// Takes over what was counted.
    pub fn set(&self, reading: DatabaseReading) {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let copy = |counter: &Counter, count: u64| counter.inner().store(count, Ordering::Relaxed);
        let DatabaseReading { statuses, proxy, archive, golden } = reading;
        // A status without databases must not keep its last number.
        self.databases.clear();
        for (status, count) in statuses {
            self.databases.get_or_create(&DatabaseStatusLabel { status }).set(whole(count));
        }
        self.preparing.set(whole(golden.running));
        for (result, count) in [("ok", golden.made), ("error", golden.failed)] {
            copy(&self.preparations.get_or_create(&OutcomeLabel { result }), count);
        }
        self.active.set(whole(proxy.active_connections));
        self.held.set(whole(proxy.held_connections));
        copy(&self.connections, proxy.total_connections);
        copy(&self.errors, proxy.errors);
        copy(&self.lookup_errors, proxy.catalog_lookup_errors);
        copy(&self.failed_handshakes, proxy.failed_handshakes);
        copy(&self.wakes, proxy.wakes);
        for (reason, count) in proxy.refused {
            copy(&self.refused.get_or_create(&ReasonLabel { reason }), count);
        }
        for (direction, count) in ["in", "out"].into_iter().zip(proxy.bytes) {
            copy(&self.bytes.get_or_create(&DirectionLabel { direction }), count);
        }
        copy(&self.spooled, archive.spooled);
        copy(&self.spooled_bytes, archive.spooled_bytes);
        copy(&self.uploaded_bytes, archive.segment_bytes);
        for (result, uploads, bases) in
            [("ok", archive.segments, archive.bases), ("error", archive.failures, archive.base_failures)]
        {
            copy(&self.uploads.get_or_create(&OutcomeLabel { result }), uploads);
            copy(&self.base_backups.get_or_create(&OutcomeLabel { result }), bases);
        }
        self.spool.set(whole(archive.spool_bytes));
        self.behind.set(whole(archive.behind_seconds));
    }
}
