//! The server's metrics for Prometheus. Labels are closed sets: states, boot modes, and what the
//! front door counts of requests.

use std::{fmt, sync::atomic::Ordering};

use pandastack_door::RequestMeters;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use crate::database_meters::{DatabaseMeters, DatabaseReading};

/// Seconds until a sandbox answers. The smallest are for standby machines, the largest for cold
/// starts on a slow host.
const BOOT_BUCKETS: [f64; 10] = [0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModeLabel {
    mode: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BootModeLabel {
    boot_mode: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CreateLabels {
    result: &'static str,
    boot_mode: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfLabel {
    of: &'static str,
}

/// All meters of the server.
pub struct Meters {
    registry: Registry,
    /// Counted by the front door.
    pub requests: RequestMeters,
    boots: Family<ModeLabel, Counter>,
    boot_durations: Family<BootModeLabel, Histogram>,
    creates: Family<CreateLabels, Counter>,
    hibernations: Family<ResultLabel, Counter>,
    sandboxes: Family<StateLabel, Gauge>,
    machines: Family<OfLabel, Gauge>,
    bytes: Family<OfLabel, Gauge>,
    resident: Gauge,
    spans: Family<OfLabel, Counter>,
    databases: DatabaseMeters,
}

/// Values that are read when the metrics are requested.
pub struct MeterReading {
    /// Number of sandboxes in each state.
    pub sandboxes: Vec<(String, u64)>,
    /// Number of machines that serve, stand by, and wait for a layer.
    pub machines: [u64; 3],
    pub memory_promised: u64,
    pub disk_free: u64,
    pub disk_total: u64,
    pub resident: u64,
    /// Number of spans that the collector took, and of spans that were dropped. None without
    /// collector.
    pub spans: Option<[u64; 2]>,
    pub databases: DatabaseReading,
}

impl Default for Meters {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("pandastack");
        let meters = Self {
            requests: RequestMeters::default(),
            boots: Family::default(),
            boot_durations: Family::new_with_constructor(|| Histogram::new(BOOT_BUCKETS)),
            creates: Family::default(),
            hibernations: Family::default(),
            sandboxes: Family::default(),
            machines: Family::default(),
            bytes: Family::default(),
            resident: Gauge::default(),
            spans: Family::default(),
            databases: DatabaseMeters::default(),
            registry: Registry::default(),
        };
        meters.requests.register(&mut registry);
        registry.register("boots", "Started sandboxes by boot mode", meters.boots.clone());
        let about = "Time until a started sandbox answers";
        registry.register_with_unit("sandbox_boot_duration", about, Unit::Seconds, meters.boot_durations.clone());
        let about = "Creates that were admitted, by result and boot mode";
        registry.register("sandbox_creates", about, meters.creates.clone());
        registry.register("hibernation", "Hibernations of sandboxes by result", meters.hibernations.clone());
        registry.register("sandboxes", "Sandboxes by state", meters.sandboxes.clone());
        registry.register("machines", "Machines by use: serving, standby or blank", meters.machines.clone());
        registry.register_with_unit(
            "host",
            "Memory reserved for guests, and space of the data volume",
            Unit::Bytes,
            meters.bytes.clone(),
        );
        let about = "Resident memory of the server process";
        registry.register_with_unit("process_resident_memory", about, Unit::Bytes, meters.resident.clone());
        registry.register("spans", "Request spans: exported or dropped", meters.spans.clone());
        meters.databases.register(&mut registry);
        Self { registry, ..meters }
    }
}

impl Meters {
    /// Content type of the text that `encode` writes.
    pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// Counts a sandbox that booted.
    pub fn booted(&self, mode: &str, boot_ms: u64) {
        let label = BootModeLabel { boot_mode: mode.to_owned() };
        self.boot_durations.get_or_create(&label).observe(boot_ms as f64 / 1000.0);
        self.boots.get_or_create(&ModeLabel { mode: mode.to_owned() }).inc();
    }

    /// Counts a create that was admitted: with the boot mode, or `None` if it failed.
    pub fn created(&self, mode: Option<&str>) {
        let result = if mode.is_some() { "ok" } else { "error" };
        self.creates.get_or_create(&CreateLabels { result, boot_mode: mode.unwrap_or("none").to_owned() }).inc();
    }

    /// Counts a sandbox that fell asleep.
    pub fn hibernated(&self) {
        self.hibernations.get_or_create(&ResultLabel { result: "ok" }).inc();
    }

    /// Counts a sandbox that could not be put to sleep.
    pub fn hibernation_failed(&self) {
        self.hibernations.get_or_create(&ResultLabel { result: "error" }).inc();
    }

    /// Renders all meters.
    pub fn encode(&self, reading: MeterReading) -> Result<String, fmt::Error> {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        // A state without sandboxes must not keep its last number.
        self.sandboxes.clear();
        for (state, count) in reading.sandboxes {
            self.sandboxes.get_or_create(&StateLabel { state }).set(whole(count));
        }
        for (of, count) in ["sandbox", "standby", "blank"].into_iter().zip(reading.machines) {
            self.machines.get_or_create(&OfLabel { of }).set(whole(count));
        }
        let bytes = [
            ("memory_promised", reading.memory_promised),
            ("disk_free", reading.disk_free),
            ("disk_total", reading.disk_total),
        ];
        for (of, count) in bytes {
            self.bytes.get_or_create(&OfLabel { of }).set(whole(count));
        }
        self.resident.set(whole(reading.resident));
        for (of, count) in ["exported", "dropped"].into_iter().zip(reading.spans.into_iter().flatten()) {
            // Counted elsewhere and only copied here.
            self.spans.get_or_create(&OfLabel { of }).inner().store(count, Ordering::Relaxed);
        }
        self.databases.set(reading.databases);
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pandastack_postgres_archive::ArchiveFigures;

    use super::*;
    use crate::{app::GoldenCounts, database_meters::DatabaseProxyReading};

    #[test]
    fn everything_counted_is_written() {
        let meters = Meters::default();
        meters.requests.answered("GET", "/v1/sandboxes/{id}", 404, Duration::from_millis(3));
        meters.requests.answered("BREW", "none", 503, Duration::from_secs(60));
        meters.booted("standby", 40);
        meters.created(Some("standby"));
        meters.created(None);
        meters.hibernated();
        meters.hibernation_failed();
        meters.requests.too_fast();
        let reading = |state: &str| MeterReading {
            sandboxes: vec![(state.into(), 2)],
            machines: [2, 1, 0],
            memory_promised: 5,
            disk_free: 6,
            disk_total: 7,
            resident: 8,
            spans: Some([9, 10]),
            databases: DatabaseReading {
                statuses: vec![("running", 3)],
                proxy: DatabaseProxyReading {
                    active_connections: 4,
                    held_connections: 1,
                    total_connections: 11,
                    wakes: 2,
                    refused: vec![("plain", 5), ("unknown", 0)],
                    bytes: [12, 13],
                    ..DatabaseProxyReading::default()
                },
                archive: ArchiveFigures {
                    spooled: 14,
                    spooled_bytes: 15,
                    segments: 16,
                    failures: 17,
                    base_failures: 18,
                    spool_bytes: 19,
                    behind_seconds: 20,
                    ..ArchiveFigures::default()
                },
                golden: GoldenCounts { made: 21, failed: 22, running: 1 },
            },
        };
        meters.encode(reading("paused")).unwrap();
        let text = meters.encode(reading("running")).unwrap();
        for line in [
            "pandastack_http_requests_total{method=\"GET\",route=\"/v1/sandboxes/{id}\",status=\"404\"} 1",
            "pandastack_http_requests_total{method=\"other\",route=\"none\",status=\"503\"} 1",
            "pandastack_http_request_duration_seconds_bucket{le=\"0.005\",route=\"/v1/sandboxes/{id}\"} 1",
            "pandastack_http_request_duration_seconds_bucket{le=\"+Inf\",route=\"none\"} 1",
            "pandastack_boots_total{mode=\"standby\"} 1",
            "pandastack_sandbox_boot_duration_seconds_bucket{le=\"0.05\",boot_mode=\"standby\"} 1",
            "pandastack_sandbox_creates_total{result=\"ok\",boot_mode=\"standby\"} 1",
            "pandastack_sandbox_creates_total{result=\"error\",boot_mode=\"none\"} 1",
            "pandastack_hibernation_total{result=\"ok\"} 1",
            "pandastack_hibernation_total{result=\"error\"} 1",
            "pandastack_rate_limited_total 1",
            "pandastack_sandboxes{state=\"running\"} 2",
            "pandastack_machines{of=\"standby\"} 1",
            "pandastack_host_bytes{of=\"disk_free\"} 6",
            "pandastack_process_resident_memory_bytes 8",
            "pandastack_spans_total{of=\"exported\"} 9",
            "pandastack_spans_total{of=\"dropped\"} 10",
            "pandastack_databases{status=\"running\"} 3",
            "pandastack_database_preparations_total{result=\"ok\"} 21",
            "pandastack_database_preparations_total{result=\"error\"} 22",
            "pandastack_database_preparing 1",
            "pandastack_dbproxy_active_connections 4",
            "pandastack_dbproxy_held_connections 1",
            "pandastack_dbproxy_total_connections_total 11",
            "pandastack_dbproxy_errors_total 0",
            "pandastack_dbproxy_catalog_lookup_errors_total 0",
            "pandastack_dbproxy_failed_handshakes_total 0",
            "pandastack_dbproxy_wakes_total 2",
            "pandastack_dbproxy_refused_connections_total{reason=\"plain\"} 5",
            "pandastack_dbproxy_bytes_total{direction=\"out\"} 13",
            "pandastack_database_archive_spooled_files_total 14",
            "pandastack_database_archive_spooled_bytes_total 15",
            "pandastack_database_archive_uploads_total{result=\"ok\"} 16",
            "pandastack_database_archive_uploads_total{result=\"error\"} 17",
            "pandastack_database_archive_base_backups_total{result=\"error\"} 18",
            "pandastack_database_archive_spool_bytes 19",
            "pandastack_database_archive_behind_seconds 20",
            "# EOF",
        ] {
            assert!(text.lines().any(|said| said == line), "{line} is not in:\n{text}");
        }
        assert!(!text.contains("paused"));
    }
}
