//! Metrics of requests for Prometheus. Labels are closed sets: route templates, methods, status
//! codes that this server uses.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::{Registry, Unit},
};

/// Seconds until the answer's head. The smallest are for reads, the largest for creates on a slow
/// host.
const BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 25.0];

/// Status codes of this server's own answers.
const STATUSES: [(u16, &str); 23] = [
    (101, "101"),
    (200, "200"),
    (201, "201"),
    (202, "202"),
    (204, "204"),
    (304, "304"),
    (400, "400"),
    (401, "401"),
    (402, "402"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (409, "409"),
    (410, "410"),
    (413, "413"),
    (422, "422"),
    (429, "429"),
    (499, "499"),
    (500, "500"),
    (502, "502"),
    (503, "503"),
    (504, "504"),
    (507, "507"),
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabel {
    route: String,
}

/// Metrics of all requests. Clones count together.
#[derive(Clone)]
pub struct RequestMeters {
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabel, Histogram>,
    refused: Counter,
}

impl Default for RequestMeters {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            refused: Counter::default(),
        }
    }
}

impl RequestMeters {
    /// Adds the metrics to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("http_requests", "Requests answered", self.requests.clone());
        let about = "Time until the response headers";
        registry.register_with_unit("http_request_duration", about, Unit::Seconds, self.durations.clone());
        registry.register("rate_limited", "Requests rejected by the rate limit", self.refused.clone());
    }

    /// Counts an answered request.
    pub fn answered(&self, method: &str, route: &str, status: u16, took: Duration) {
        let labels = RequestLabels { method: known(method), route: route.to_owned(), status: status_label(status) };
        self.requests.get_or_create(&labels).inc();
        self.durations.get_or_create(&RouteLabel { route: route.to_owned() }).observe(took.as_secs_f64());
    }

    /// Counts a request that the rate limit refused.
    pub fn too_fast(&self) {
        self.refused.inc();
    }
}

pub(super) fn known(method: &str) -> &'static str {
    let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    methods.into_iter().find(|known| *known == method).unwrap_or("other")
}

/// Returns the code. A guest may answer with any code, so unusual ones are counted by their class.
fn status_label(status: u16) -> &'static str {
    if let Some((_, label)) = STATUSES.iter().find(|(known, _)| *known == status) {
        return label;
    }
    match status {
        100..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        _ => "5xx",
    }
}
