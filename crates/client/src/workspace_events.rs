//! Events of the whole workspace, as a list and as a stream.

use std::collections::VecDeque;

use pandastack_wire_public::{EventPlace, KindFilter, WorkspaceEvent, WorkspaceEvents};
use reqwest::{Method, Response};

use crate::{
    Client, ClientError,
    client::ANSWER_MAX,
    events::{EventReader, ServerSentEvent},
};

/// What a stream of a workspace's events brings.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkspaceNews {
    Event(WorkspaceEvent),
    /// Events were lost. The stream continues after this place.
    Reset(EventPlace),
}

/// A stream of a workspace's events. The server ends it now and then; follow again after the last
/// place.
pub struct WorkspaceStream {
    response: Response,
    reader: EventReader,
    ready: VecDeque<ServerSentEvent>,
    url: String,
}

impl Client {
    /// Returns the recent events of the workspace, oldest first.
    pub async fn workspace_events(&self, kinds: KindFilter, limit: usize) -> Result<WorkspaceEvents, ClientError> {
        let limit = limit.to_string();
        let values = [("limit", limit.as_str()), ("kind", kinds.as_str())];
        let request = self.query_request(Method::GET, &["events"], &values)?;
        self.json(request.timeout(ANSWER_MAX)).await
    }

    /// Follows the events of the workspace, after a place or from now on.
    pub async fn follow_workspace(
        &self,
        kinds: KindFilter,
        since: Option<&str>,
    ) -> Result<WorkspaceStream, ClientError> {
        let asked = [("follow", "1"), ("kind", kinds.as_str())];
        let values: Vec<_> = asked.into_iter().chain(since.map(|since| ("since", since))).collect();
        let response = self.send(self.query_request(Method::GET, &["events"], &values)?).await?;
        Ok(WorkspaceStream {
            response,
            reader: EventReader::default(),
            ready: VecDeque::new(),
            url: self.url().to_owned(),
        })
    }
}

impl WorkspaceStream {
    /// Waits for the next event; `None` when the server ends the stream.
    pub async fn next(&mut self) -> Option<Result<WorkspaceNews, ClientError>> {
        loop {
            while let Some(event) = self.ready.pop_front() {
                let read = match event.name.as_str() {
                    "event" => serde_json::from_str(&event.data).map(WorkspaceNews::Event),
                    "reset" => serde_json::from_str(&event.data).map(WorkspaceNews::Reset),
                    // A newer server may send unknown events.
                    _ => continue,
                };
                return Some(read.map_err(|error| self.protocol(error.to_string())));
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
