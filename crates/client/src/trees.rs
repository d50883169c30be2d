//! Operations on whole directories of a guest.

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use pandastack_wire_public::{
    DirListing,
    tree::{Changed, Chmod, MakeDir, MovePath, Unpacked},
};
use reqwest::{Body, Method};

use crate::{Client, ClientError, client::ANSWER_MAX};

impl Client {
    /// Creates a directory.
    pub async fn mkdir(&self, id: &str, ask: &MakeDir) -> Result<Changed, ClientError> {
        let request = self.request(Method::POST, &["sandboxes", id, "fs", "mkdir"])?;
        self.json(request.json(ask).timeout(ANSWER_MAX)).await
    }

    /// Moves a path.
    pub async fn move_path(&self, id: &str, ask: &MovePath) -> Result<Changed, ClientError> {
        let request = self.request(Method::POST, &["sandboxes", id, "fs", "move"])?;
        self.json(request.json(ask).timeout(ANSWER_MAX)).await
    }

    /// Sets permission bits.
    pub async fn chmod(&self, id: &str, ask: &Chmod) -> Result<Changed, ClientError> {
        let request = self.request(Method::POST, &["sandboxes", id, "fs", "chmod"])?;
        self.json(request.json(ask).timeout(ANSWER_MAX)).await
    }

    /// Lists a directory and the levels below it, down to a depth.
    pub async fn walk(&self, id: &str, path: &str, depth: u32) -> Result<DirListing, ClientError> {
        let query = [("path", path), ("depth", &depth.to_string())];
        self.json(self.query_request(Method::GET, &["sandboxes", id, "fs", "dir"], &query)?.timeout(ANSWER_MAX)).await
    }

    /// Streams a directory as a tar archive.
    pub async fn read_tree(
        &self,
        id: &str,
        path: &str,
    ) -> Result<impl Stream<Item = Result<Bytes, ClientError>> + use<>, ClientError> {
        let request = self.query_request(Method::GET, &["sandboxes", id, "fs", "tar"], &[("path", path)])?;
        let (response, url) = (self.send(request).await?, self.url().to_owned());
        Ok(response
            .bytes_stream()
            .map(move |piece| piece.map_err(|cause| ClientError::Broken { url: url.clone(), cause })))
    }

    /// Unpacks a tar archive into a directory. Large archives should be streams.
    pub async fn write_tree(&self, id: &str, path: &str, body: impl Into<Body>) -> Result<Unpacked, ClientError> {
        let request = self.query_request(Method::PUT, &["sandboxes", id, "fs", "tar"], &[("path", path)])?;
        self.json(request.header("content-type", "application/x-tar").body(body)).await
    }
}
