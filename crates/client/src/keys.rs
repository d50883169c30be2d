//! API keys of the caller's workspace.

use pandastack_wire_public::{ApiKey, ApiKeys, CreateApiKey};
use reqwest::Method;

use crate::{Client, ClientError, client::ANSWER_MAX};

impl Client {
    /// Creates a key. Only this response contains the key.
    pub async fn create_key(&self, ask: &CreateApiKey) -> Result<ApiKey, ClientError> {
        self.json(self.request(Method::POST, &["api-keys"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Lists keys that are not revoked, newest first.
    pub async fn keys(&self) -> Result<Vec<ApiKey>, ClientError> {
        let found: ApiKeys = self.json(self.request(Method::GET, &["api-keys"])?.timeout(ANSWER_MAX)).await?;
        Ok(found.items)
    }

    /// Revokes a key by its id or prefix, at once. The last working key needs `force`.
    pub async fn revoke_key(&self, name: &str, force: bool) -> Result<(), ClientError> {
        let values: &[(&str, &str)] = if force { &[("force", "true")] } else { &[] };
        let path = ["api-keys", name];
        self.send(self.query_request(Method::DELETE, &path, values)?.timeout(ANSWER_MAX)).await.map(drop)
    }
}
