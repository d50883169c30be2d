//! Access to the host for operators, and the limits of a workspace.

use pandastack_wire_public::{Audit, Quotas};
use reqwest::Method;

use crate::{Client, ClientError, client::ANSWER_MAX};

impl Client {
    /// Shows the limits of the workspace, and what it uses.
    pub async fn quotas(&self) -> Result<Quotas, ClientError> {
        self.json(self.request(Method::GET, &["quotas"])?.timeout(ANSWER_MAX)).await
    }

    /// Compares the resources of the host with its records.
    pub async fn audit(&self) -> Result<Audit, ClientError> {
        self.json(self.request(Method::GET, &["host", "audit"])?.timeout(ANSWER_MAX)).await
    }
}
