//! Processes that outlive their requests. The guest keeps them and their output. This module shows,
//! reads, feeds and ends them.

mod input;
mod look;
mod output;
mod start;

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};
pub use input::{feed, signal};
pub use look::{forget, get, list};
pub use output::output;
use pandastack_door::http::Refused;
use pandastack_model::SandboxId;
use pandastack_wire_fleet::{ProcessEnd, ProcessNumber, ProcessView};
use pandastack_wire_public::{Process, process_id, process_number, rfc3339};
pub use start::start;
use std::collections::HashMap;

use crate::{Edge, access::ReachableSandbox};

/// A process of a sandbox that the caller may reach. Only the guest knows whether the process
/// exists.
pub struct ProcessPath(pub SandboxId, pub ProcessNumber);

impl FromRequestParts<Edge> for ProcessPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, edge: &Edge) -> Result<Self, Refused> {
        let ReachableSandbox(id) = ReachableSandbox::from_request_parts(parts, edge).await?;
        let named = Path::<HashMap<String, String>>::from_request_parts(parts, edge).await;
        let process = named.ok().and_then(|Path(mut named)| named.remove("process")).unwrap_or_default();
        Ok(Self(id, ProcessNumber(process_number(&process)?)))
    }
}

/// Converts a process for the API.
fn render(view: ProcessView) -> Process {
    let status = status(view.ended.as_ref()).to_owned();
    let ProcessView { number, pid, command, tag, started_ms, ended, stdout_bytes, stderr_bytes, kept_from, stdin_open } =
        view;
    Process {
        id: process_id(number.0),
        pid,
        cmd: command,
        tag,
        status,
        exit_code: ended.map(|end| end.code),
        signal: ended.and_then(|end| end.signal),
        timed_out: ended.is_some_and(|end| end.timed_out),
        started_at: time(started_ms),
        ended_at: ended.map(|end| time(end.at_ms)),
        stdout_bytes,
        stderr_bytes,
        kept_from,
        stdin: stdin_open,
    }
}

/// The status of a process for the API.
fn status(ended: Option<&ProcessEnd>) -> &'static str {
    match ended {
        None => "running",
        Some(ProcessEnd { signal: None, timed_out: false, .. }) => "exited",
        Some(_) => "killed",
    }
}

fn time(unix_ms: u64) -> String {
    rfc3339(unix_ms.saturating_mul(1_000_000))
}
