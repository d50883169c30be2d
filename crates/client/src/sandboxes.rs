//! Sandboxes and templates.

use pandastack_wire_public::{CreateSandbox, KindFilter, Sandbox, Template};
use reqwest::Method;

use crate::{Client, ClientError, client::ANSWER_MAX};

impl Client {
    /// Creates a sandbox. It can be used when this returns.
    pub async fn create(&self, ask: &CreateSandbox) -> Result<Sandbox, ClientError> {
        self.json(self.request(Method::POST, &["sandboxes"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Lists sandboxes, newest first, without the machines of databases.
    pub async fn list(&self) -> Result<Vec<Sandbox>, ClientError> {
        self.json(self.request(Method::GET, &["sandboxes"])?.timeout(ANSWER_MAX)).await
    }

    /// Lists sandboxes of some kinds, newest first.
    pub async fn list_kinds(&self, kinds: KindFilter) -> Result<Vec<Sandbox>, ClientError> {
        let request = self.query_request(Method::GET, &["sandboxes"], &[("kind", kinds.as_str())])?;
        self.json(request.timeout(ANSWER_MAX)).await
    }

    /// Shows one sandbox.
    pub async fn get(&self, id: &str) -> Result<Sandbox, ClientError> {
        self.json(self.request(Method::GET, &["sandboxes", id])?.timeout(ANSWER_MAX)).await
    }

    /// Deletes a sandbox.
    pub async fn delete(&self, id: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, &["sandboxes", id])?.timeout(ANSWER_MAX)).await.map(drop)
    }

    /// Lists the templates that sandboxes can start from.
    pub async fn templates(&self) -> Result<Vec<Template>, ClientError> {
        self.json(self.request(Method::GET, &["templates"])?.timeout(ANSWER_MAX)).await
    }
}
