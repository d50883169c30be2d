//! Routes for forks, trees and snapshots.

use serde_json::json;

use super::operation::{Operation, query, route};
use crate::{FamilyTree, Fork, ForkRequest, ForkTree, PromoteRequest, Promotion, Snapshot, SnapshotList};

const TAG: &str = "Copies";

pub fn operations() -> Vec<Operation> {
    vec![
        route(TAG, "POST", "/v1/sandboxes/{id}/snapshots").once().machine().gives::<Snapshot>(201),
        route(TAG, "GET", "/v1/snapshots")
            .with(query("sandbox_id", json!({"type": "string"}), "Lists only the snapshots of this sandbox."))
            .gives::<SnapshotList>(200),
        route(TAG, "GET", "/v1/snapshots/{snapshot}").gives::<Snapshot>(200),
        route(TAG, "DELETE", "/v1/snapshots/{snapshot}").refuses(&[409, 502, 503, 504]).gives_nothing(204),
        route(TAG, "POST", "/v1/sandboxes/{id}/fork")
            .once()
            .machine()
            .may_take::<ForkRequest>(json!({"metadata": {"try": "1"}}))
            .gives::<Fork>(201),
        route(TAG, "POST", "/v1/sandboxes/{id}/fork-tree")
            .once()
            .machine()
            .may_take::<ForkRequest>(json!({"count": 4}))
            .gives::<ForkTree>(201),
        route(TAG, "POST", "/v1/sandboxes/{id}/promote")
            .machine()
            .may_take::<PromoteRequest>(json!({"cleanup_siblings": true}))
            .gives::<Promotion>(200),
        route(TAG, "GET", "/v1/sandboxes/{id}/tree").ours().gives::<FamilyTree>(200),
    ]
}
