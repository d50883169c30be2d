//! Processes that outlive the request that started them.

use std::collections::VecDeque;

use pandastack_wire_public::{
    ExecFailure, Fed, FollowedChunk, FollowedExit, LostOutput, Process, ProcessOutput, SignalRequest, SpawnRequest,
};
use reqwest::{Body, Method, Response};

use crate::{
    Client, ClientError,
    client::ANSWER_MAX,
    events::{EventReader, ServerSentEvent},
};

/// One event of a followed process. `Exit` is last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowedEvent {
    Stdout(FollowedChunk),
    Stderr(FollowedChunk),
    /// Bytes that are no longer kept.
    Lost(LostOutput),
    Exit(FollowedExit),
}

/// A followed process. Dropping it does not end the process.
pub struct FollowedProcess {
    response: Response,
    reader: EventReader,
    ready: VecDeque<ServerSentEvent>,
    url: String,
    ended: bool,
}

impl Client {
    /// Starts a process that keeps running.
    pub async fn spawn(&self, id: &str, ask: &SpawnRequest) -> Result<Process, ClientError> {
        self.json(self.request(Method::POST, &["sandboxes", id, "processes"])?.json(ask).timeout(ANSWER_MAX)).await
    }

    /// Lists the processes that the sandbox remembers, oldest first.
    pub async fn processes(&self, id: &str) -> Result<Vec<Process>, ClientError> {
        self.json(self.request(Method::GET, &["sandboxes", id, "processes"])?.timeout(ANSWER_MAX)).await
    }

    /// Shows one process.
    pub async fn process(&self, id: &str, process: &str) -> Result<Process, ClientError> {
        self.json(self.request(Method::GET, &["sandboxes", id, "processes", process])?.timeout(ANSWER_MAX)).await
    }

    /// Returns the current output from an offset on.
    pub async fn output(&self, id: &str, process: &str, offset: u64) -> Result<ProcessOutput, ClientError> {
        let path = ["sandboxes", id, "processes", process, "output"];
        let request = self.query_request(Method::GET, &path, &[("offset", &offset.to_string())])?;
        self.json(request.timeout(ANSWER_MAX)).await
    }

    /// Follows output from an offset on, until the process ends.
    pub async fn follow(&self, id: &str, process: &str, offset: u64) -> Result<FollowedProcess, ClientError> {
        let path = ["sandboxes", id, "processes", process, "output"];
        let query = [("offset", offset.to_string()), ("follow", "1".to_owned())];
        let query = query.each_ref().map(|(name, value)| (*name, value.as_str()));
        let response = self.send(self.query_request(Method::GET, &path, &query)?).await?;
        let url = self.url().to_owned();
        Ok(FollowedProcess { response, reader: EventReader::default(), ready: VecDeque::new(), url, ended: false })
    }

    /// Writes to standard input. With `end` it then closes standard input.
    pub async fn feed(&self, id: &str, process: &str, body: impl Into<Body>, end: bool) -> Result<Fed, ClientError> {
        let path = ["sandboxes", id, "processes", process, "stdin"];
        let query: &[(&str, &str)] = if end { &[("end", "1")] } else { &[] };
        self.json(self.query_request(Method::POST, &path, query)?.body(body)).await
    }

    /// Sends a signal to a process group.
    pub async fn signal(&self, id: &str, process: &str, signal: &str) -> Result<(), ClientError> {
        let request = self.request(Method::POST, &["sandboxes", id, "processes", process, "signal"])?;
        let ask = SignalRequest { signal: signal.into() };
        self.send(request.json(&ask).timeout(ANSWER_MAX)).await.map(drop)
    }

    /// Kills a process group and removes the process.
    pub async fn forget(&self, id: &str, process: &str) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, &["sandboxes", id, "processes", process])?;
        self.send(request.timeout(ANSWER_MAX)).await.map(drop)
    }
}

impl FollowedProcess {
    /// Returns the next event; `None` after `Exit`. A stream that ends without `Exit` is an error.
    pub async fn next(&mut self) -> Option<Result<FollowedEvent, ClientError>> {
        if self.ended {
            return None;
        }
        let step = self.step().await;
        self.ended = matches!(step, Ok(FollowedEvent::Exit(_)) | Err(_));
        Some(step)
    }

    async fn step(&mut self) -> Result<FollowedEvent, ClientError> {
        loop {
            while let Some(event) = self.ready.pop_front() {
                if let Some(step) = self.understand(&event)? {
                    return Ok(step);
                }
            }
            match self.response.chunk().await {
                Ok(Some(piece)) => self.ready.extend(self.reader.push(&piece).map_err(|what| self.protocol(what))?),
                Ok(None) => return Err(ClientError::Exec("the stream ended before the process did".to_owned())),
                Err(cause) => return Err(ClientError::Broken { url: self.url.clone(), cause }),
            }
        }
    }

    fn understand(&self, event: &ServerSentEvent) -> Result<Option<FollowedEvent>, ClientError> {
        let bad = |error: serde_json::Error| self.protocol(error.to_string());
        let chunk = || serde_json::from_str(&event.data).map_err(bad);
        match event.name.as_str() {
            "stdout" => Ok(Some(FollowedEvent::Stdout(chunk()?))),
            "stderr" => Ok(Some(FollowedEvent::Stderr(chunk()?))),
            "lost" => Ok(Some(FollowedEvent::Lost(serde_json::from_str(&event.data).map_err(bad)?))),
            "exit" => Ok(Some(FollowedEvent::Exit(serde_json::from_str(&event.data).map_err(bad)?))),
            "error" => Err(ClientError::Exec(serde_json::from_str::<ExecFailure>(&event.data).map_err(bad)?.error)),
            // A newer server may send unknown events.
            _ => Ok(None),
        }
    }

    fn protocol(&self, what: String) -> ClientError {
        ClientError::Protocol { url: self.url.clone(), what }
    }
}
