//! Changes below a path as an event stream. The guest starts to watch before the response head is
//! sent, so a client that has the head misses no later change.

use axum::{Extension, extract::State, http::Uri};
use futures_util::{StreamExt, stream::unfold};
use pandastack_door::http::{Answer, RequestId, event_stream, flag, log_fault};
use pandastack_model::Fault;
use pandastack_wire_fleet::{FileChange, FileChangeKind, FileChangeStream, PathScope};
use pandastack_wire_public::{
    ExecFailure, reply, sse,
    tree::{self, WatchNote},
};

use super::path;
use crate::{Edge, access::ReachableSandbox, exec::lost, limits::KEEPALIVE};

/// Streams changes until the client disconnects or the path is gone. The latter, and every failure,
/// is sent as a last `error` event.
pub async fn watch(
    State(edge): State<Edge>,
    ReachableSandbox(id): ReachableSandbox,
    Extension(RequestId(request)): Extension<RequestId>,
    uri: Uri,
) -> Answer {
    let path = path(&uri)?;
    let reach = if flag(&uri, "recursive") { PathScope::All } else { PathScope::Only };
    let changes = edge.host.watch(id, &path, reach).await?;
    let ready = sse::event("ready", &WatchNote { path });
    let watching = ChangeEvents { changes, ready: Some(ready), request };
    Ok(event_stream(unfold(Some(watching), |watching| async move { Some(watching?.next().await) })))
}

struct ChangeEvents {
    changes: FileChangeStream,
    /// The first event, until it is sent.
    ready: Option<String>,
    request: String,
}

impl ChangeEvents {
    async fn next(mut self) -> (String, Option<Self>) {
        if let Some(ready) = self.ready.take() {
            return (ready, Some(self));
        }
        match tokio::time::timeout(KEEPALIVE, self.changes.next()).await {
            Err(_) => (sse::KEEPALIVE.to_owned(), Some(self)),
            Ok(Some(Ok(changes))) => (changes.into_iter().map(event).collect(), Some(self)),
            Ok(Some(Err(fault))) => (self.failure(&fault), None),
            Ok(None) => (self.failure(&lost()), None),
        }
    }

    fn failure(&self, fault: &Fault) -> String {
        log_fault(fault, &self.request);
        sse::event("error", &ExecFailure { error: reply(fault, &self.request).body.error })
    }
}

fn event(change: FileChange) -> String {
    let FileChange { kind, path, folder, cookie } = change;
    let kind = match kind {
        FileChangeKind::Created => "created",
        FileChangeKind::Modified => "modified",
        FileChangeKind::Written => "written",
        FileChangeKind::Deleted => "deleted",
        FileChangeKind::MovedFrom => "moved_from",
        FileChangeKind::MovedTo => "moved_to",
        FileChangeKind::Attributes => "attributes",
        FileChangeKind::Overflow => return sse::event("overflow", &WatchNote { path }),
    };
    sse::event("change", &tree::Change { kind: kind.to_owned(), path, is_dir: folder, cookie })
}
