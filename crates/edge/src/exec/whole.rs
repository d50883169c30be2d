//! Runs a command and returns its output in one answer. Output beyond a limit is dropped, so a
//! command with much output still runs to its end.

use std::time::Instant;

use axum::{Json, body::Body, extract::State};
use pandastack_door::http::{Answer, RequestTrace};
use pandastack_model::{Fault, SandboxId};
use pandastack_wire_public::ExecResponse;

use super::{
    ask::{self, CommandStart},
    budget::{BudgetShare, OutputBudget},
    run::{CommandEvent, RunningCommand},
};
use crate::{Edge, access::ReachableSandbox, limits::OUTPUT_BYTES_MAX};

/// Runs a command and answers with its output. The command ends if the client disconnects.
pub async fn whole(
    State(edge): State<Edge>,
    ReachableSandbox(id): ReachableSandbox,
    traced: RequestTrace,
    body: Body,
) -> Answer<Json<ExecResponse>> {
    let start = ask::parse(body, traced).await?;
    Ok(Json(collect(&edge, id, start).await?))
}

/// Runs a command to its end and returns its output.
pub async fn collect(edge: &Edge, id: SandboxId, start: CommandStart) -> Result<ExecResponse, Fault> {
    let began = Instant::now();
    let mut run = RunningCommand::start(&*edge.host, id, start).await?;
    let (mut stdout, mut stderr) = (OutputHead::new(OUTPUT_BYTES_MAX), OutputHead::new(OUTPUT_BYTES_MAX));
    let exit_code = loop {
        match run.next().await {
            CommandEvent::Stdout(piece) => stdout.push(&piece, &edge.budget),
            CommandEvent::Stderr(piece) => stderr.push(&piece, &edge.budget),
            CommandEvent::Quiet => {}
            CommandEvent::Exit(code) => break code,
            CommandEvent::Failed(fault) => return Err(fault),
        }
    };
    Ok(ExecResponse {
        truncated: stdout.cut || stderr.cut,
        stdout: stdout.into_text(),
        stderr: stderr.into_text(),
        exit_code,
        duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}

/// The start of an output stream.
pub struct OutputHead {
    bytes: Vec<u8>,
    bytes_max: usize,
    share: BudgetShare,
    cut: bool,
}

impl OutputHead {
    /// Keeps at most this many bytes, if the shared budget has room for them.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), bytes_max, share: BudgetShare::default(), cut: false }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether output was dropped.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    pub fn push(&mut self, piece: &[u8], budget: &OutputBudget) {
        if self.cut {
            return;
        }
        let piece_kept = &piece[..piece.len().min(self.bytes_max - self.bytes.len())];
        if !budget.cover(&mut self.share, self.bytes.len() + piece_kept.len()) {
            self.cut = true;
            return;
        }
        self.bytes.extend_from_slice(piece_kept);
        self.cut = piece_kept.len() < piece.len();
    }

    /// Returns the output as text. Invalid UTF-8 is replaced.
    pub fn into_plain_text(self) -> String {
        match String::from_utf8(self.bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }
    }

    fn into_text(self) -> String {
        let (kept, cut) = (self.bytes.len(), self.cut);
        let mut text = self.into_plain_text();
        if cut {
            text.push_str(&format!("\n[output truncated after {kept} bytes; use exec/stream for the whole output]\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_past_the_limit_is_dropped_and_marked() {
        let budget = OutputBudget::new(2 * OUTPUT_BYTES_MAX);
        let mut kept = OutputHead::new(OUTPUT_BYTES_MAX);
        kept.push(&vec![b'x'; OUTPUT_BYTES_MAX - 1], &budget);
        kept.push(b"yz", &budget);
        kept.push(b"more", &budget);
        assert!(kept.cut);
        assert_eq!(kept.bytes.len(), OUTPUT_BYTES_MAX);
        assert!(
            kept.into_text()
                .ends_with("xy\n[output truncated after 16777216 bytes; use exec/stream for the whole output]\n")
        );
    }

    #[test]
    fn output_past_the_common_budget_is_dropped_too() {
        let mut kept = OutputHead::new(OUTPUT_BYTES_MAX);
        kept.push(&[b'x'; 4096], &OutputBudget::new(1024));
        assert!(kept.cut && kept.bytes.is_empty());
    }

    #[test]
    fn a_full_stream_is_not_cut() {
        let mut kept = OutputHead::new(OUTPUT_BYTES_MAX);
        kept.push(b"caf\xc3\xa9 \xff", &OutputBudget::new(OUTPUT_BYTES_MAX));
        assert!(!kept.cut);
        assert_eq!(kept.into_text(), "café \u{fffd}");
    }
}
