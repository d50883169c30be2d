//! The collector for request spans of `pandastack up`.

use clap::Args;
use pandastack_control::{TelemetryError, TelemetrySettings};

#[derive(Args)]
pub struct TelemetryArgs {
    /// Send request spans to this OpenTelemetry collector, such as http://localhost:4318 (OTLP over
    /// HTTP in JSON)
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// HTTP headers to send to the collector with every request, as NAME=VALUE,…
    #[arg(long, env = "OTEL_EXPORTER_OTLP_HEADERS", hide = true, hide_env_values = true)]
    otlp_headers: Option<String>,
    /// Service name of this server in the collector
    #[arg(long, env = "OTEL_SERVICE_NAME", hide = true)]
    otlp_service: Option<String>,
}

impl TelemetryArgs {
    /// Reads the settings. The OpenTelemetry specification treats an empty variable as
    /// unset.
    pub fn settings(&self) -> Result<Option<TelemetrySettings>, TelemetryError> {
        let [headers, service] = [&self.otlp_headers, &self.otlp_service].map(Option::as_deref);
        let endpoint = self.otlp_endpoint.as_deref().filter(|endpoint| !endpoint.is_empty());
        endpoint.map(|endpoint| TelemetrySettings::new(endpoint, headers, service)).transpose()
    }
}
