//! Runs one cell and collects its output. The guest limits output and results. Here they also count
//! against the memory budget of whole answers.

use std::time::Duration;

use axum::{Json, body::Body, extract::State};
use futures_util::StreamExt;
use pandastack_door::http::{Answer, json_body};
use pandastack_kit::trace::{self, OpenSpan};
use pandastack_model::{CodeSessionId, Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{CellEnd, CellEnded, CellEvent, CellParams};
use pandastack_wire_public::{CellResult, CellSpec, MimeBundle, RunCell};

use super::SessionPath;
use crate::{
    Edge,
    access::ReachableSandbox,
    exec::OutputHead,
    limits::{CELL_BODY_BYTES_MAX, CELL_OUTPUT_BYTES_MAX},
};

const LOST: &str = "the state of earlier cells is lost";

/// Runs a cell and answers with its result. A client that disconnects interrupts the cell.
pub async fn cell(
    State(edge): State<Edge>,
    ReachableSandbox(id): ReachableSandbox,
    SessionPath(session): SessionPath,
    body: Body,
) -> Answer<Json<CellResult>> {
    let spec = json_body::<RunCell>(body).await?.try_into()?;
    Ok(Json(run_cell(&edge, id, session, spec).await?))
}

/// Runs a cell to its end.
pub async fn run_cell(edge: &Edge, id: SandboxId, session: CodeSessionId, spec: CellSpec) -> Result<CellResult, Fault> {
    let about = |work: &mut OpenSpan| work.note("pandastack.sandbox.id", id.to_string());
    trace::span("guest.run_code", about, to_the_end(edge, id, session, spec)).await
}

async fn to_the_end(edge: &Edge, id: SandboxId, session: CodeSessionId, spec: CellSpec) -> Result<CellResult, Fault> {
    let CellSpec { code, timeout } = spec;
    let mut cell = edge.host.run_cell(id, CellParams { session, code: code.into(), limit: timeout }).await?;
    let mut said = CellOutput::default();
    loop {
        match cell.next().await {
            Some(CellEvent::Stdout(piece)) => said.stdout.push(&piece, &edge.budget),
            Some(CellEvent::Stderr(piece)) => said.stderr.push(&piece, &edge.budget),
            Some(CellEvent::Body(piece)) => said.body.push(&piece, &edge.budget),
            Some(CellEvent::Ended(ended)) => return said.conclude(ended, timeout),
            Some(CellEvent::Failed(fault)) => return Err(fault),
            None => return Err(crate::exec::lost()),
        }
    }
}

/// Output and results of a cell so far.
struct CellOutput {
    stdout: OutputHead,
    stderr: OutputHead,
    body: OutputHead,
}

impl Default for CellOutput {
    fn default() -> Self {
        let output = || OutputHead::new(CELL_OUTPUT_BYTES_MAX);
        Self { stdout: output(), stderr: output(), body: OutputHead::new(CELL_BODY_BYTES_MAX) }
    }
}

/// The kernel's reply, without its output.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct KernelReply {
    error: Option<String>,
    results: Vec<MimeBundle>,
}

impl CellOutput {
    fn conclude(self, ended: CellEnded, limit: Duration) -> Result<CellResult, Fault> {
        let CellEnded { how, took, anew, lost, stdout_cut, stderr_cut } = ended;
        let (exit, told) = match how {
            CellEnd::Late => return Err(late(limit, lost)),
            CellEnd::NeverBegun => return Err(never_begun(limit)),
            CellEnd::Answered { exit } => (exit, self.told()),
            CellEnd::KernelEnded { code } => {
                (code, KernelReply { error: Some(kernel_ended(code)), ..KernelReply::default() })
            }
        };
        let truncated = stdout_cut || stderr_cut || self.stdout.is_cut() || self.stderr.is_cut();
        let note = if anew { format!("[the session was restarted: {LOST}]\n") } else { String::new() };
        Ok(CellResult {
            stdout: text(self.stdout, stdout_cut),
            stderr: note + &text(self.stderr, stderr_cut),
            exit,
            exit_code: exit,
            error: told.error.filter(|error| !error.is_empty()),
            results: told.results,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            restarted: anew,
            truncated,
        })
    }

    /// Parses the kernel's reply. The kernel runs a user's code, so the reply is untrusted.
    fn told(&self) -> KernelReply {
        let body = self.body.bytes();
        if body.is_empty() && !self.body.is_cut() {
            return KernelReply::default();
        }
        let mut told = serde_json::from_slice::<KernelReply>(body).unwrap_or_else(|_| KernelReply {
            error: Some("the results of this cell could not be read".to_owned()),
            results: Vec::new(),
        });
        // With a key that is not a MIME type, clients would misread the bundle.
        told.results.iter_mut().for_each(|bundle| bundle.retain(|mime, _| mime.contains('/')));
        told.results.retain(|bundle| !bundle.is_empty());
        told
    }
}

fn text(kept: OutputHead, cut: bool) -> String {
    let bytes = kept.bytes().len();
    let cut = cut || kept.is_cut();
    let text = kept.into_plain_text();
    if cut { format!("{text}\n[output truncated after {bytes} bytes]\n") } else { text }
}

/// The fault of a cell that timed out. The published clients search the text for `timeout`.
fn late(limit: Duration, lost: bool) -> Fault {
    let mut text = format!("cell timeout after {}s", limit.as_secs_f64());
    if lost {
        text.push_str(&format!("; the cell did not stop, so the session was restarted: {LOST}"));
    }
    Fault::new(FaultKind::Timeout, "session.timeout", text)
}

fn never_begun(limit: Duration) -> Fault {
    let text = format!("cell timeout: other cells of this session took longer than {}s", limit.as_secs_f64());
    Fault::new(FaultKind::Timeout, "session.timeout", text)
}

fn kernel_ended(code: i32) -> String {
    let how = match code {
        129..=192 => format!("was killed by signal {}", code - 128),
        _ => format!("ended with code {code}"),
    };
    format!("the session's process {how} while this cell ran: {LOST}, and the next cell runs in a new process\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::OutputBudget;

    fn check(body: &str, error: Option<&str>, results: usize) {
        let mut said = CellOutput::default();
        said.body.push(body.as_bytes(), &OutputBudget::new(1 << 20));
        let told = said.told();
        assert_eq!((told.error.as_deref(), told.results.len()), (error, results), "{body}");
    }

    #[test]
    fn a_kernel_may_say_anything() {
        check("", None, 0);
        check(r#"{"results":[{"text/plain":"1"},{"type":"x","data":"y"},{}],"more":1}"#, None, 1);
        check(r#"{"error":"bad"}"#, Some("bad"), 0);
        for nonsense in ["{", "[]x", r#"{"results":[{"text/plain":1}]}"#, "\u{0}"] {
            check(nonsense, Some("the results of this cell could not be read"), 0);
        }
    }

    #[test]
    fn an_end_says_how() {
        assert!(kernel_ended(137).contains("killed by signal 9") && kernel_ended(3).contains("ended with code 3"));
        assert_eq!(late(Duration::from_millis(1500), false).text, "cell timeout after 1.5s");
        assert!(late(Duration::from_secs(1), true).text.contains("lost"));
    }
}
