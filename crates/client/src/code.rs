//! Running code.

use pandastack_wire_public::{CellResult, CodeSession, OpenSession, RanOnce, RunCell, RunOnce};
use reqwest::Method;

use crate::{Client, ClientError, client::ANSWER_MAX};

impl Client {
    /// Opens a code session, which keeps its state between cells.
    pub async fn open_code(&self, id: &str, language: &str) -> Result<CodeSession, ClientError> {
        let ask = OpenSession { language: Some(language.to_owned()) };
        let request = self.request(Method::POST, &["sandboxes", id, "repl", "sessions"])?.json(&ask);
        self.json(request.timeout(ANSWER_MAX * 2)).await
    }

    /// Lists code sessions, oldest first.
    pub async fn code_sessions(&self, id: &str) -> Result<Vec<CodeSession>, ClientError> {
        let request = self.request(Method::GET, &["sandboxes", id, "repl", "sessions"])?;
        self.json(request.timeout(ANSWER_MAX)).await
    }

    /// Runs a cell. The client sets no timeout, because the request has one.
    pub async fn run_cell(&self, id: &str, session: &str, ask: &RunCell) -> Result<CellResult, ClientError> {
        let path = ["sandboxes", id, "repl", "sessions", session, "run"];
        self.json(self.request(Method::POST, &path)?.json(ask)).await
    }

    /// Closes a code session.
    pub async fn close_code(&self, id: &str, session: &str) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, &["sandboxes", id, "repl", "sessions", session])?;
        self.send(request.timeout(ANSWER_MAX)).await.map(drop)
    }

    /// Runs code without a session.
    pub async fn run_once(&self, id: &str, ask: &RunOnce) -> Result<RanOnce, ClientError> {
        self.json(self.request(Method::POST, &["sandboxes", id, "repl"])?.json(ask)).await
    }
}
