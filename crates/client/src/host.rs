//! Operator's access to the host.

use pandastack_wire_public::Audit;
use reqwest::Method;

use crate::{Client, ClientError, client::ANSWER_MAX};

impl Client {
    /// Compares the resources of the host with its records.
    pub async fn audit(&self) -> Result<Audit, ClientError> {
        self.json(self.request(Method::GET, &["host", "audit"])?.timeout(ANSWER_MAX)).await
    }
}
