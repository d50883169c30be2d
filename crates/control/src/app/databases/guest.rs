//! Runs the image's own tool in the machine of a database.

use std::time::Duration;

use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{ExecControl, ExecEvent, ExecParams, ExecSession, Program, UseKind};

use crate::{
    Control,
    limits::{DATABASE_ERRAND_GRACE, DATABASE_OUTPUT_BYTES_MAX},
};

/// The tool. `images/postgres-16` installs it.
pub(super) const TOOL: &str = "/usr/lib/pandastack/database";
/// Bytes of an error message that are kept.
const COMPLAINT_BYTES_MAX: usize = 500;

impl Control {
    /// Runs a verb of the tool for the platform itself: this neither wakes the machine nor keeps it
    /// awake.
    pub(super) async fn look_in_database(&self, id: SandboxId, verb: &[&str], time: Duration) -> Result<String, Fault> {
        self.run_tool(id, verb, None, time, UseKind::Platform).await
    }

    /// Runs a verb of the tool as root and returns what it prints.
    pub(super) async fn run_in_database(
        &self,
        id: SandboxId,
        verb: &[&str],
        input: Option<String>,
        time: Duration,
    ) -> Result<String, Fault> {
        self.run_tool(id, verb, input, time, UseKind::Client).await
    }

    async fn run_tool(
        &self,
        id: SandboxId,
        verb: &[&str],
        input: Option<String>,
        time: Duration,
        by: UseKind,
    ) -> Result<String, Fault> {
        // The machine is not trusted to keep its own time limit.
        let run = self.run_tool_as_told(id, verb, input, time, by);
        tokio::time::timeout(time + DATABASE_ERRAND_GRACE, run).await.unwrap_or_else(|_| {
            let text = format!("database {}: no answer after {} s", verb.join(" "), time.as_secs());
            Err(Fault::new(FaultKind::Unavailable, "database.tool_failed", text))
        })
    }

    async fn run_tool_as_told(
        &self,
        id: SandboxId,
        verb: &[&str],
        input: Option<String>,
        time: Duration,
        by: UseKind,
    ) -> Result<String, Fault> {
        let argv = std::iter::once(TOOL).chain(verb.iter().copied()).map(str::to_owned).collect();
        let ask = ExecParams {
            program: Program::Argv(argv),
            cwd: Some("/".to_owned()),
            user: Some("0".to_owned()),
            stdin: input.is_some(),
            ..ExecParams::shell("", time)
        };
        let ExecSession { mut events, control } = self.host.exec_as(id, ask, by).await?;
        if let Some(input) = input {
            // A tool that ended reports it itself.
            let _ = control.send(ExecControl::Stdin(input.into())).await;
            let _ = control.send(ExecControl::CloseStdin).await;
        }
        let (mut printed, mut complaint) = (Vec::new(), Vec::new());
        let end = loop {
            match events.recv().await {
                Some(ExecEvent::Stdout(piece)) => keep(&mut printed, &piece, DATABASE_OUTPUT_BYTES_MAX),
                Some(ExecEvent::Stderr(piece)) => keep(&mut complaint, &piece, COMPLAINT_BYTES_MAX),
                end => break end,
            }
        };
        let failed = |text: String| {
            let verb = verb.first().copied().unwrap_or_default();
            Fault::new(FaultKind::Unavailable, "database.tool_failed", format!("database {verb}: {text}"))
        };
        match end {
            Some(ExecEvent::Exit { code: 0 }) if printed.len() >= DATABASE_OUTPUT_BYTES_MAX => {
                Err(failed("it printed more than is read".to_owned()))
            }
            Some(ExecEvent::Exit { code: 0 }) => Ok(String::from_utf8_lossy(&printed).into_owned()),
            Some(ExecEvent::Exit { code }) => {
                let complaint = String::from_utf8_lossy(&complaint);
                Err(failed(format!("exit status {code}: {}", complaint.trim())))
            }
            Some(ExecEvent::TimedOut { after }) => Err(failed(format!("no answer after {} s", after.as_secs()))),
            Some(ExecEvent::Failed(fault)) => Err(fault),
            _ => Err(failed("the connection to the machine was lost".to_owned())),
        }
    }
}

fn keep(kept: &mut Vec<u8>, piece: &[u8], most: usize) {
    let room = most.saturating_sub(kept.len()).min(piece.len());
    kept.extend_from_slice(&piece[..room]);
}
