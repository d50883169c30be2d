//! Volumes.

use pandastack_wire_public::{CreateVolume, GrowVolume, Volume};
use reqwest::Method;

use crate::{Client, ClientError, client::ANSWER_MAX};

impl Client {
    /// Creates an empty volume.
    pub async fn create_volume(&self, ask: &CreateVolume) -> Result<Volume, ClientError> {
        self.json(self.request(Method::POST, &["volumes"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Lists volumes by name.
    pub async fn volumes(&self) -> Result<Vec<Volume>, ClientError> {
        self.json(self.request(Method::GET, &["volumes"])?.timeout(ANSWER_MAX)).await
    }

    /// Shows one volume.
    pub async fn get_volume(&self, name: &str) -> Result<Volume, ClientError> {
        self.json(self.request(Method::GET, &["volumes", name])?.timeout(ANSWER_MAX)).await
    }

    /// Grows a volume, even while it is in use.
    pub async fn grow_volume(&self, name: &str, size_mb: i64) -> Result<Volume, ClientError> {
        let ask = GrowVolume { size_mb: Some(size_mb) };
        self.json(self.request(Method::PATCH, &["volumes", name])?.timeout(ANSWER_MAX).json(&ask)).await
    }

    /// Deletes a volume and its data. Refused while a sandbox uses it.
    pub async fn delete_volume(&self, name: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, &["volumes", name])?.timeout(ANSWER_MAX)).await.map(drop)
    }
}
