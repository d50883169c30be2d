//! Ports of a sandbox, and signed previews of them.

use pandastack_wire_public::{DeclarePort, Port, Preview, PreviewRequest};
use reqwest::Method;

use crate::{Client, ClientError, client::ANSWER_MAX};

impl Client {
    /// Lists listening and declared ports by number. Wakes a sleeping sandbox.
    pub async fn ports(&self, id: &str) -> Result<Vec<Port>, ClientError> {
        self.json(self.request(Method::GET, &["sandboxes", id, "ports"])?.timeout(ANSWER_MAX)).await
    }

    /// Declares a port. A second call changes its label.
    pub async fn declare_port(&self, id: &str, ask: &DeclarePort) -> Result<Port, ClientError> {
        self.json(self.request(Method::POST, &["sandboxes", id, "ports"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Removes a declaration. It may be missing.
    pub async fn undeclare_port(&self, id: &str, port: u16) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, &["sandboxes", id, "ports", &port.to_string()])?;
        self.send(request.timeout(ANSWER_MAX)).await.map(drop)
    }

    /// Creates a signed preview: a link that needs no key, with limits on paths and time.
    pub async fn preview(&self, id: &str, ask: &PreviewRequest) -> Result<Preview, ClientError> {
        self.json(self.request(Method::POST, &["sandboxes", id, "preview-token"])?.timeout(ANSWER_MAX).json(ask)).await
    }
}
