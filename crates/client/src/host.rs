//! The host itself, for its operator.

use pandastack_wire_public::Audit;
use reqwest::Method;

use crate::{Client, ClientError, client::ANSWER_MAX};

impl Client {
    /// Compares what the host has with what it should have.
    pub async fn audit(&self) -> Result<Audit, ClientError> {
        self.json(self.request(Method::GET, &["host", "audit"])?.timeout(ANSWER_MAX)).await
    }
}
