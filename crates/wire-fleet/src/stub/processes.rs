//! Background processes of the stub. Nothing runs: each is recorded in its sandbox, and in the
//! layers that are sealed from it.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use pandastack_model::{Fault, FaultKind, LayerId, SandboxId};

use super::{StubHost, files::read_body};
use crate::{
    AttachParams, ByteStream, OutputEvent, ProcessEnd, ProcessNumber, ProcessOutputStream, ProcessPort, ProcessView,
    Program, SpawnParams, StdinAfterWrite,
};

const STARTED_MS: u64 = 1_700_000_000_000;

/// A running process.
pub fn process_view(number: u64, command: &str) -> ProcessView {
    ProcessView {
        number: ProcessNumber(number),
        pid: 42,
        command: command.into(),
        tag: None,
        started_ms: STARTED_MS,
        ended: None,
        stdout_bytes: 5,
        stderr_bytes: 6,
        kept_from: 0,
        stdin_open: false,
    }
}

impl StubHost {
    /// Lists the commands of the running processes of a sandbox.
    pub fn running_commands(&self, id: &str) -> Vec<String> {
        let running = self.running.lock().unwrap();
        let all = running.get(&id.parse().unwrap()).cloned().unwrap_or_default();
        all.into_iter().filter(|process| process.ended.is_none()).map(|process| process.command).collect()
    }

    /// Ends a process by itself.
    pub fn end_process(&self, id: SandboxId, number: u64, end: ProcessEnd) {
        self.with_process(id, ProcessNumber(number), |process| process.ended = Some(end)).unwrap();
    }

    /// Keeps the processes of a sandbox in a layer.
    pub(super) fn seal_processes(&self, id: SandboxId, layer: LayerId) {
        let running = self.running.lock().unwrap().get(&id).cloned().unwrap_or_default();
        self.sealed.lock().unwrap().insert(layer, running);
    }

    /// Gives a sandbox the processes of its layer.
    pub(super) fn restore_processes(&self, id: SandboxId, layer: LayerId) {
        let running = self.sealed.lock().unwrap().get(&layer).cloned().unwrap_or_default();
        self.running.lock().unwrap().insert(id, running);
    }

    fn with_process<T>(
        &self,
        id: SandboxId,
        number: ProcessNumber,
        work: impl FnOnce(&mut ProcessView) -> T,
    ) -> Result<T, Fault> {
        let mut running = self.running.lock().unwrap();
        let found = running.entry(id).or_default().iter_mut().find(|process| process.number == number);
        found.map(work).ok_or_else(|| Fault::new(FaultKind::Missing, "process.not_found", "no such process"))
    }
}

fn end(code: i32, signal: Option<i32>) -> ProcessEnd {
    ProcessEnd { code, signal, timed_out: false, at_ms: STARTED_MS + 5 }
}

/// The program `missing` cannot be started. The program `exit` ends at once with the given status.
#[async_trait]
impl ProcessPort for StubHost {
    async fn spawn(&self, id: SandboxId, ask: SpawnParams) -> Result<ProcessView, Fault> {
        self.serve("spawn", id)?;
        self.spawned.lock().unwrap().push(ask.clone());
        let SpawnParams { exec, tag } = ask;
        let command = match exec.program {
            Program::Shell(text) => text,
            Program::Argv(argv) | Program::Code(_, argv) => argv.join(" "),
        };
        if command == "missing" {
            return Err(Fault::new(FaultKind::Caller, "exec.not_found", "no such program"));
        }
        let ended = command.strip_prefix("exit ").map(|code| end(code.parse().unwrap(), None));
        let mut running = self.running.lock().unwrap();
        let processes = running.entry(id).or_default();
        let number = processes.iter().map(|process| process.number.0).max().unwrap_or(0) + 1;
        let view = ProcessView { tag, ended, stdin_open: exec.stdin, ..process_view(number, &command) };
        processes.push(view.clone());
        self.record(format!("spawn {number}"));
        Ok(view)
    }

    async fn processes(&self, id: SandboxId) -> Result<Vec<ProcessView>, Fault> {
        self.serve("processes", id)?;
        Ok(self.running.lock().unwrap().get(&id).cloned().unwrap_or_default())
    }

    async fn process(&self, id: SandboxId, number: ProcessNumber) -> Result<ProcessView, Fault> {
        self.serve("process", id)?;
        self.with_process(id, number, |process| process.clone())
    }

    async fn attach(&self, id: SandboxId, ask: AttachParams) -> Result<ProcessOutputStream, Fault> {
        self.serve("attach", id)?;
        self.record(format!("attach {} {} {:?}", ask.process.0, ask.offset, ask.until));
        let prepared = self.output.lock().unwrap().pop_front();
        if let Some(steps) = prepared {
            return Ok(Box::pin(stream::iter(steps)));
        }
        let process = self.with_process(id, ask.process, |process| process.clone())?;
        let said = Bytes::from(format!("{} says so", process.command));
        Ok(Box::pin(stream::iter([OutputEvent::At(0), OutputEvent::Stdout(said), OutputEvent::End(process)].map(Ok))))
    }

    async fn feed(
        &self,
        id: SandboxId,
        number: ProcessNumber,
        body: ByteStream,
        afterwards: StdinAfterWrite,
    ) -> Result<u64, Fault> {
        self.serve("feed", id)?;
        let bytes = read_body(body).await?;
        self.record(format!("feed {} {:?} {afterwards:?}", number.0, String::from_utf8_lossy(&bytes)));
        Ok(bytes.len() as u64)
    }

    async fn signal(&self, id: SandboxId, number: ProcessNumber, signal: i32) -> Result<(), Fault> {
        self.serve("signal", id)?;
        self.record(format!("signal {} {signal}", number.0));
        self.with_process(id, number, |process| process.ended = Some(end(128 + signal, Some(signal))))
    }

    async fn forget(&self, id: SandboxId, number: ProcessNumber) -> Result<(), Fault> {
        self.serve("forget", id)?;
        self.record(format!("forget {}", number.0));
        self.running.lock().unwrap().entry(id).or_default().retain(|process| process.number != number);
        Ok(())
    }
}
