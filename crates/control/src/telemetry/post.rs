//! Sends one batch to the collector with one POST. Keeps no connection. The collector's answer
//! decides whether the batch is tried again.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    client::conn::http1,
    header::{CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use pandastack_kit::Scope;
use serde::Deserialize;
use tokio::time::timeout;

use super::TelemetrySettings;
use crate::{
    dial::{AddressPolicy, ConnectionTask, DialError, DialTarget, Dialer},
    limits::{COLLECTOR_ANSWER_BYTES_MAX, COLLECTOR_ANSWER_MAX, COLLECTOR_HEAD_BYTES_MAX},
};

/// Outcome of a batch.
#[derive(Debug, PartialEq, Eq)]
pub enum ExportOutcome {
    /// Accepted, except for this many spans.
    Taken { rejected: u64 },
    /// Rejected for good.
    Refused { status: u16 },
    /// Try again, after this time if the collector named one.
    Later { why: String, after: Option<Duration> },
}

/// Sends batches.
pub struct BatchSender {
    settings: TelemetrySettings,
    dialer: Dialer,
    scope: Scope,
}

#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("the request could not be built")]
    Request(#[source] hyper::http::Error),
    #[error("no valid HTTP response")]
    Http(#[source] hyper::Error),
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CollectorAnswer {
    partial_success: PartialSuccess,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialSuccess {
    /// OTLP writes 64-bit numbers as text. Some collectors write a number instead.
    rejected_spans: serde_json::Value,
}

impl BatchSender {
    pub fn new(settings: TelemetrySettings, scope: Scope) -> Self {
        let dialer = Dialer::new(AddressPolicy::Private, settings.roots.clone(), scope.clone());
        Self { settings, dialer, scope }
    }

    pub fn settings(&self) -> &TelemetrySettings {
        &self.settings
    }

    /// Sends a batch and reads the collector's answer.
    pub async fn post(&self, body: Bytes) -> ExportOutcome {
        let asked = async {
            let (response, _connection) = self.ask(body).await?;
            Ok::<_, ExportError>(verdict(response).await)
        };
        match timeout(COLLECTOR_ANSWER_MAX, asked).await {
            Ok(Ok(posted)) => posted,
            Ok(Err(error)) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                ExportOutcome::Later { why: format!("{error}{cause}"), after: None }
            }
            Err(_) => {
                let why = format!("no response within {}s", COLLECTOR_ANSWER_MAX.as_secs());
                ExportOutcome::Later { why, after: None }
            }
        }
    }

    async fn ask(&self, body: Bytes) -> Result<(Response<Incoming>, ConnectionTask), ExportError> {
        let TelemetrySettings { target, headers, .. } = &self.settings;
        let place = DialTarget { host: target.host(), port: target.port(), tls: target.is_https() };
        let stream = self.dialer.open(&place).await?;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(COLLECTOR_HEAD_BYTES_MAX);
        let (mut requests, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(ExportError::Http)?;
        let carrying = ConnectionTask::of(self.scope.start("collector connection", async move {
            // The request itself reports an error.
            let _ = connection.await;
        }));
        let mut request = Request::post(target.path_and_query())
            .header(HOST, target.authority())
            .header(USER_AGENT, concat!("pandastack/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(ExportError::Request)?;
        request.headers_mut().extend(headers.iter().map(|(name, value)| (Some(name.clone()), value.clone())));
        let response = requests.send_request(request).await.map_err(ExportError::Http)?;
        Ok((response, carrying))
    }
}

async fn verdict(response: Response<Incoming>) -> ExportOutcome {
    let status = response.status();
    if status.is_success() {
        // Without this field no span was rejected.
        let body = Limited::new(response.into_body(), COLLECTOR_ANSWER_BYTES_MAX).collect().await;
        let body = body.map(|whole| whole.to_bytes()).unwrap_or_default();
        let CollectorAnswer { partial_success } = serde_json::from_slice(&body).unwrap_or_default();
        return ExportOutcome::Taken { rejected: number(&partial_success.rejected_spans) };
    }
    match status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => {
            let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
            ExportOutcome::Later {
                why: format!("the collector answered {}", status.as_u16()),
                after: after.map(Duration::from_secs),
            }
        }
        _ => ExportOutcome::Refused { status: status.as_u16() },
    }
}

fn number(value: &serde_json::Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_default()
}
