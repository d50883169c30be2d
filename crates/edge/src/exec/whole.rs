//! One command, one answer. Keeps output up to a limit and drops the rest, so that a chatty command still runs to its end.

use std::time::Instant;

use axum::{Json, body::Body, extract::State};
use pandastack_wire_public::{ExecResponse, http::Answer};

use super::{
    ask,
    budget::{Budget, Share},
    run::{Run, Step},
};
use crate::{Edge, access::Admitted, limits::OUTPUT_BYTES_MAX};

/// Runs a command and answers with its output. A client that hangs up ends it.
pub async fn whole(State(edge): State<Edge>, Admitted(id): Admitted, body: Body) -> Answer<Json<ExecResponse>> {
    let start = ask::parse(body).await?;
    let began = Instant::now();
    let mut run = Run::start(&*edge.host, id, start).await?;
    let (mut stdout, mut stderr) = (Kept::default(), Kept::default());
    let exit_code = loop {
        match run.next().await {
            Step::Stdout(piece) => stdout.push(&piece, &edge.budget),
            Step::Stderr(piece) => stderr.push(&piece, &edge.budget),
            Step::Quiet => {}
            Step::Exit(code) => break code,
            Step::Failed(fault) => return Err(fault.into()),
        }
    };
    Ok(Json(ExecResponse {
        truncated: stdout.cut || stderr.cut,
        stdout: stdout.into_text(),
        stderr: stderr.into_text(),
        exit_code,
        duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    }))
}

/// The beginning of an output stream.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    share: Share,
    cut: bool,
}

impl Kept {
    fn push(&mut self, piece: &[u8], budget: &Budget) {
        if self.cut {
            return;
        }
        let piece_kept = &piece[..piece.len().min(OUTPUT_BYTES_MAX - self.bytes.len())];
        if !budget.cover(&mut self.share, self.bytes.len() + piece_kept.len()) {
            self.cut = true;
            return;
        }
        self.bytes.extend_from_slice(piece_kept);
        self.cut = piece_kept.len() < piece.len();
    }

    fn into_text(self) -> String {
        let kept = self.bytes.len();
        let mut text = match String::from_utf8(self.bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        if self.cut {
            text.push_str(&format!("\n[output truncated after {kept} bytes; use exec/stream for all of it]\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_past_the_limit_is_dropped_and_marked() {
        let budget = Budget::new(2 * OUTPUT_BYTES_MAX);
        let mut kept = Kept::default();
        kept.push(&vec![b'x'; OUTPUT_BYTES_MAX - 1], &budget);
        kept.push(b"yz", &budget);
        kept.push(b"more", &budget);
        assert!(kept.cut);
        assert_eq!(kept.bytes.len(), OUTPUT_BYTES_MAX);
        assert!(
            kept.into_text().ends_with("xy\n[output truncated after 16777216 bytes; use exec/stream for all of it]\n")
        );
    }

    #[test]
    fn output_past_the_common_budget_is_dropped_too() {
        let mut kept = Kept::default();
        kept.push(&[b'x'; 4096], &Budget::new(1024));
        assert!(kept.cut && kept.bytes.is_empty());
    }

    #[test]
    fn a_full_stream_is_not_cut() {
        let mut kept = Kept::default();
        kept.push(b"caf\xc3\xa9 \xff", &Budget::new(OUTPUT_BYTES_MAX));
        assert!(!kept.cut);
        assert_eq!(kept.into_text(), "café \u{fffd}");
    }
}
