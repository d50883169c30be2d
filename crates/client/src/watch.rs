//! Monitoring: consoles, events, resource usage, boot times and the audit trail.

use std::{collections::VecDeque, marker::PhantomData};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use pandastack_wire_public::{
    AuditTrail, BootStats, Event as SandboxEvent, EventList, LogLine, MachineMetrics, MetricSeries,
};
use reqwest::{Method, Response};
use serde::de::DeserializeOwned;

use crate::{
    Client, ClientError,
    client::ANSWER_MAX,
    events::{EventReader, ServerSentEvent},
};

/// Which audit entries are listed. Everything of the last day by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// The first time, as RFC 3339 or Unix seconds.
    pub since: Option<String>,
    /// The first time that is too late.
    pub until: Option<String>,
    /// `user:ID`, `key:PREFIX` or an e-mail address.
    pub actor: Option<String>,
    pub method: Option<String>,
}

/// A stream of items that lasts until the sandbox is gone.
pub struct SandboxStream<T> {
    response: Response,
    reader: EventReader,
    ready: VecDeque<ServerSentEvent>,
    url: String,
    name: &'static str,
    kind: PhantomData<fn() -> T>,
}

impl Client {
    /// Returns a sandbox's console, or only its last lines.
    pub async fn logs(&self, id: &str, tail: Option<usize>) -> Result<String, ClientError> {
        let tail = tail.map(|tail| tail.to_string());
        let values: Vec<_> = tail.iter().map(|tail| ("tail", tail.as_str())).collect();
        let request = self.query_request(Method::GET, &["sandboxes", id, "logs"], &values)?.timeout(ANSWER_MAX);
        let text = self.send(request).await?.text().await;
        text.map_err(|cause| ClientError::sending(self.url(), cause))
    }

    /// Follows a sandbox's console.
    pub async fn follow_logs(&self, id: &str, tail: Option<usize>) -> Result<SandboxStream<LogLine>, ClientError> {
        self.follow_stream(&["sandboxes", id, "logs"], tail, "line").await
    }

    /// Returns the recent events of a sandbox, oldest first.
    pub async fn events(&self, id: &str) -> Result<Vec<SandboxEvent>, ClientError> {
        let request = self.request(Method::GET, &["sandboxes", id, "events"])?.timeout(ANSWER_MAX);
        self.json::<EventList>(request).await.map(|list| list.events)
    }

    /// Follows the events of a sandbox.
    pub async fn follow_events(
        &self,
        id: &str,
        tail: Option<usize>,
    ) -> Result<SandboxStream<SandboxEvent>, ClientError> {
        self.follow_stream(&["sandboxes", id, "events"], tail, "event").await
    }

    /// Shows the current resource usage of a sandbox's machine.
    pub async fn metrics(&self, id: &str) -> Result<MachineMetrics, ClientError> {
        self.json(self.request(Method::GET, &["sandboxes", id, "metrics"])?.timeout(ANSWER_MAX)).await
    }

    /// Shows the resource usage of a sandbox over a period such as `6h`.
    pub async fn metric_series(&self, id: &str, range: &str) -> Result<MetricSeries, ClientError> {
        let path = ["metrics", "sandbox", id];
        self.json(self.query_request(Method::GET, &path, &[("range", range)])?.timeout(ANSWER_MAX)).await
    }

    /// Summarizes boot times and lists the last boots.
    pub async fn boot_stats(&self, limit: usize) -> Result<BootStats, ClientError> {
        let request = self.query_request(Method::GET, &["stats", "boot"], &[("limit", &limit.to_string())])?;
        self.json(request.timeout(ANSWER_MAX)).await
    }

    /// Lists changing requests, newest first.
    pub async fn audit_trail(&self, query: &AuditQuery, limit: usize) -> Result<AuditTrail, ClientError> {
        let AuditQuery { since, until, actor, method } = query;
        let (mut values, limit) = (Vec::new(), limit.to_string());
        for (name, value) in [("since", since), ("until", until), ("actor", actor), ("method", method)] {
            values.extend(value.as_deref().map(|value| (name, value)));
        }
        values.push(("limit", &limit));
        self.json(self.query_request(Method::GET, &["audit"], &values)?.timeout(ANSWER_MAX)).await
    }

    /// Streams all audit entries as JSON lines, oldest first. With a number, only those after it.
    pub async fn export_audit(
        &self,
        after: Option<u64>,
    ) -> Result<impl Stream<Item = Result<Bytes, ClientError>> + use<>, ClientError> {
        let after = after.map(|after| after.to_string());
        let values: Vec<_> = after.iter().map(|after| ("after", after.as_str())).collect();
        let response = self.send(self.query_request(Method::GET, &["audit", "export"], &values)?).await?;
        let url = self.url().to_owned();
        Ok(response
            .bytes_stream()
            .map(move |piece| piece.map_err(|cause| ClientError::Broken { url: url.clone(), cause })))
    }

    async fn follow_stream<T>(
        &self,
        path: &[&str],
        tail: Option<usize>,
        name: &'static str,
    ) -> Result<SandboxStream<T>, ClientError> {
        let tail = tail.map(|tail| tail.to_string());
        let values: Vec<_> = tail.iter().map(|tail| ("tail", tail.as_str())).chain([("follow", "1")]).collect();
        let response = self.send(self.query_request(Method::GET, path, &values)?).await?;
        let (reader, ready, url) = (EventReader::default(), VecDeque::new(), self.url().to_owned());
        Ok(SandboxStream { response, reader, ready, url, name, kind: PhantomData })
    }
}

impl<T: DeserializeOwned> SandboxStream<T> {
    /// Waits for the next item; `None` when the sandbox is gone.
    pub async fn next(&mut self) -> Option<Result<T, ClientError>> {
        loop {
            while let Some(event) = self.ready.pop_front() {
                // A newer server may send unknown events.
                if event.name == self.name {
                    return Some(serde_json::from_str(&event.data).map_err(|error| self.protocol(error.to_string())));
                }
            }
            match self.response.chunk().await {
                Ok(Some(piece)) => match self.reader.push(&piece) {
                    Ok(events) => self.ready.extend(events),
                    Err(what) => return Some(Err(self.protocol(what))),
                },
                Ok(None) => return None,
                Err(cause) => return Some(Err(ClientError::Broken { url: self.url.clone(), cause })),
            }
        }
    }

    fn protocol(&self, what: String) -> ClientError {
        ClientError::Protocol { url: self.url.clone(), what }
    }
}
