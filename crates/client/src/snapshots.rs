//! Snapshots.

use std::time::Duration;

use pandastack_wire_public::{Snapshot, SnapshotList};
use reqwest::Method;

use crate::{Client, ClientError, client::ANSWER_MAX};

/// Memory and disk are written to disk before the server answers. The server's own timeout is
/// shorter.
const SNAPSHOT_MAX: Duration = Duration::from_secs(180);

impl Client {
    /// Saves a sandbox's memory and disk. The sandbox keeps running.
    pub async fn snapshot(&self, id: &str) -> Result<Snapshot, ClientError> {
        self.json(self.request(Method::POST, &["sandboxes", id, "snapshots"])?.timeout(SNAPSHOT_MAX)).await
    }

    /// Lists snapshots, newest first; only those of one sandbox if it is given.
    pub async fn snapshots(&self, sandbox: Option<&str>) -> Result<Vec<Snapshot>, ClientError> {
        let request = match sandbox {
            Some(sandbox) => self.query_request(Method::GET, &["snapshots"], &[("sandbox_id", sandbox)])?,
            None => self.request(Method::GET, &["snapshots"])?,
        };
        self.json::<SnapshotList>(request.timeout(ANSWER_MAX)).await.map(|list| list.snapshots)
    }

    /// Shows one snapshot.
    pub async fn get_snapshot(&self, id: &str) -> Result<Snapshot, ClientError> {
        self.json(self.request(Method::GET, &["snapshots", id])?.timeout(ANSWER_MAX)).await
    }

    /// Deletes a snapshot. Sandboxes made from it keep running.
    pub async fn delete_snapshot(&self, id: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, &["snapshots", id])?.timeout(SNAPSHOT_MAX)).await.map(drop)
    }
}
