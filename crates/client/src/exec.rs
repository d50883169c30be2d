//! Running commands.

use std::collections::VecDeque;

use pandastack_wire_public::{ExecChunk, ExecExit, ExecFailure, ExecRequest, ExecResponse};
use reqwest::{Method, Response};

use crate::{
    Client, ClientError,
    events::{EventReader, ServerSentEvent},
};

/// One event of a command. `Exit` is last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecOutput {
    Stdout(String),
    Stderr(String),
    Exit(i32),
}

/// A command whose output is streamed. Dropping it ends the command.
pub struct ExecStream {
    response: Response,
    reader: EventReader,
    ready: VecDeque<ServerSentEvent>,
    url: String,
    ended: bool,
}

impl Client {
    /// Runs a command and waits for its end. The client sets no timeout, because the request may
    /// have one.
    pub async fn exec(&self, id: &str, ask: &ExecRequest) -> Result<ExecResponse, ClientError> {
        self.json(self.request(Method::POST, &["sandboxes", id, "exec"])?.json(ask)).await
    }

    /// Runs a command and streams its output.
    pub async fn exec_stream(&self, id: &str, ask: &ExecRequest) -> Result<ExecStream, ClientError> {
        let request = self.request(Method::POST, &["sandboxes", id, "exec", "stream"])?.json(ask);
        let response = self.send(request).await?;
        let url = self.url().to_owned();
        Ok(ExecStream { response, reader: EventReader::default(), ready: VecDeque::new(), url, ended: false })
    }
}

impl ExecStream {
    /// Returns the next event; `None` after `Exit`. A stream that ends without `Exit` is an error.
    pub async fn next(&mut self) -> Option<Result<ExecOutput, ClientError>> {
        if self.ended {
            return None;
        }
        let output = self.output().await;
        self.ended = matches!(output, Ok(ExecOutput::Exit(_)) | Err(_));
        Some(output)
    }

    async fn output(&mut self) -> Result<ExecOutput, ClientError> {
        loop {
            while let Some(event) = self.ready.pop_front() {
                if let Some(output) = self.understand(&event)? {
                    return Ok(output);
                }
            }
            match self.response.chunk().await {
                Ok(Some(piece)) => self.ready.extend(self.reader.push(&piece).map_err(|what| self.protocol(what))?),
                Ok(None) => return Err(ClientError::Exec("the stream ended before the command did".to_owned())),
                Err(cause) => return Err(ClientError::Broken { url: self.url.clone(), cause }),
            }
        }
    }

    fn understand(&self, event: &ServerSentEvent) -> Result<Option<ExecOutput>, ClientError> {
        let bad = |error: serde_json::Error| self.protocol(error.to_string());
        let chunk = || serde_json::from_str::<ExecChunk>(&event.data).map(|data| data.chunk).map_err(bad);
        match event.name.as_str() {
            "stdout" => Ok(Some(ExecOutput::Stdout(chunk()?))),
            "stderr" => Ok(Some(ExecOutput::Stderr(chunk()?))),
            "exit" => Ok(Some(ExecOutput::Exit(serde_json::from_str::<ExecExit>(&event.data).map_err(bad)?.exit_code))),
            "error" => Err(ClientError::Exec(serde_json::from_str::<ExecFailure>(&event.data).map_err(bad)?.error)),
            // A newer server may send unknown events.
            _ => Ok(None),
        }
    }

    fn protocol(&self, what: String) -> ClientError {
        ClientError::Protocol { url: self.url.clone(), what }
    }
}
