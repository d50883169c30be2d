//! Files in a guest.

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use pandastack_wire_public::{DirListing, Entry, Written};
use reqwest::{Body, Method};

use crate::{Client, ClientError, client::ANSWER_MAX};

impl Client {
    /// Streams a file.
    pub async fn read(
        &self,
        id: &str,
        path: &str,
    ) -> Result<impl Stream<Item = Result<Bytes, ClientError>> + use<>, ClientError> {
        let response = self.send(self.query_request(Method::GET, &["sandboxes", id, "fs"], &[("path", path)])?).await?;
        let url = self.url().to_owned();
        Ok(response
            .bytes_stream()
            .map(move |piece| piece.map_err(|cause| ClientError::Broken { url: url.clone(), cause })))
    }

    /// Writes a file, completely or not at all. Large bodies should be streams.
    pub async fn write(&self, id: &str, path: &str, body: impl Into<Body>) -> Result<Written, ClientError> {
        let request = self.query_request(Method::PUT, &["sandboxes", id, "fs"], &[("path", path)])?;
        self.json(request.header("content-type", "application/octet-stream").body(body)).await
    }

    /// Deletes a path and everything below it.
    pub async fn delete_path(&self, id: &str, path: &str) -> Result<(), ClientError> {
        let request = self.query_request(Method::DELETE, &["sandboxes", id, "fs"], &[("path", path)])?;
        self.send(request.timeout(ANSWER_MAX)).await.map(drop)
    }

    /// Lists a directory.
    pub async fn list_dir(&self, id: &str, path: &str) -> Result<DirListing, ClientError> {
        let request = self.query_request(Method::GET, &["sandboxes", id, "fs", "dir"], &[("path", path)])?;
        self.json(request.timeout(ANSWER_MAX)).await
    }

    /// Describes a path.
    pub async fn stat(&self, id: &str, path: &str) -> Result<Entry, ClientError> {
        let request = self.query_request(Method::GET, &["sandboxes", id, "fs", "stat"], &[("path", path)])?;
        self.json(request.timeout(ANSWER_MAX)).await
    }
}
