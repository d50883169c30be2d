//! Routes for forks, trees and snapshots.

use serde_json::json;

use super::operation::{Operation, query, route};
use crate::{BranchDiff, FamilyTree, Fork, ForkRequest, ForkTree, PromoteRequest, Promotion, Snapshot, SnapshotList};

const TAG: &str = "Copies";

pub fn operations() -> Vec<Operation> {
    let mut with = query("with", json!({"type": "string"}), "The other sandbox.");
    with["required"] = json!(true);
    vec![
        route(TAG, "POST", "/v1/sandboxes/{id}/snapshots", "Create a snapshot of memory and disk")
            .once()
            .machine()
            .gives::<Snapshot>(201),
        route(TAG, "GET", "/v1/snapshots", "List snapshots, newest first")
            .with(query("sandbox_id", json!({"type": "string"}), "Lists only the snapshots of this sandbox."))
            .gives::<SnapshotList>(200),
        route(TAG, "GET", "/v1/snapshots/{snapshot}", "Show a snapshot").gives::<Snapshot>(200),
        route(TAG, "DELETE", "/v1/snapshots/{snapshot}", "Delete a snapshot")
            .refuses(&[409, 502, 503, 504])
            .gives_nothing(204),
        route(TAG, "POST", "/v1/sandboxes/{id}/fork", "Create a running copy of a sandbox")
            .once()
            .machine()
            .may_take::<ForkRequest>(json!({"metadata": {"try": "1"}}))
            .gives::<Fork>(201),
        route(TAG, "POST", "/v1/sandboxes/{id}/fork-tree", "Create several copies as one tree")
            .once()
            .machine()
            .may_take::<ForkRequest>(json!({"count": 4}))
            .gives::<ForkTree>(201),
        route(TAG, "POST", "/v1/sandboxes/{id}/promote", "Keep one copy of a tree; deletes its siblings if asked")
            .machine()
            .may_take::<PromoteRequest>(json!({"cleanup_siblings": true}))
            .gives::<Promotion>(200),
        route(TAG, "GET", "/v1/sandboxes/{id}/tree", "Show ancestors, siblings and descendants")
            .ours()
            .gives::<FamilyTree>(200),
        route(TAG, "GET", "/v1/sandboxes/{id}/diff", "Compare the files and processes of two sandboxes")
            .ours()
            .machine()
            .notes(
                "Wakes both. Compares folders of work, not the template's programs, within limits; of files that look \
                 the same only the youngest are read.",
            )
            .with(with)
            .with(query(
                "path",
                json!({"type": "string", "pattern": "^/"}),
                "Compares only what is below this absolute path.",
            ))
            .refuses(&[400])
            .gives::<BranchDiff>(200),
    ]
}
