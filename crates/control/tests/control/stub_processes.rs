//! Background processes of the stub: nothing runs, but each is recorded in its sandbox and in
//! layers sealed from it.

use std::{collections::BTreeMap, sync::Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use pandastack_model::{Fault, FaultKind, LayerId, SandboxId};
use pandastack_wire_fleet::{
    AttachAsk, OutputStep, OutputStream, ProcessEnd, ProcessNumber, ProcessPort, ProcessView, Program, SpawnAsk,
};

use crate::stub::StubHost;

/// Processes by sandbox and by layer.
#[derive(Default)]
pub struct Background {
    here: Mutex<BTreeMap<SandboxId, Vec<ProcessView>>>,
    sealed: Mutex<BTreeMap<LayerId, Vec<ProcessView>>>,
    /// Every requested process.
    pub asked: Mutex<Vec<SpawnAsk>>,
    /// Every signal that was sent.
    pub signals: Mutex<Vec<i32>>,
}

impl Background {
    pub fn seal(&self, id: SandboxId, layer: LayerId) {
        let running = self.here.lock().unwrap().get(&id).cloned().unwrap_or_default();
        self.sealed.lock().unwrap().insert(layer, running);
    }

    pub fn start(&self, id: SandboxId, layer: LayerId) {
        let running = self.sealed.lock().unwrap().get(&layer).cloned().unwrap_or_default();
        self.here.lock().unwrap().insert(id, running);
    }

    /// Lists the running processes of a sandbox.
    pub fn running(&self, id: &str) -> Vec<String> {
        let here = self.here.lock().unwrap();
        let all = here.get(&id.parse().unwrap()).cloned().unwrap_or_default();
        all.into_iter().filter(|process| process.ended.is_none()).map(|process| process.command).collect()
    }

    fn change<T>(
        &self,
        id: SandboxId,
        number: ProcessNumber,
        change: impl FnOnce(&mut ProcessView) -> T,
    ) -> Result<T, Fault> {
        let mut here = self.here.lock().unwrap();
        let found = here.entry(id).or_default().iter_mut().find(|process| process.number == number);
        found.map(change).ok_or_else(|| Fault::new(FaultKind::Missing, "process.not_found", "no such process"))
    }
}

fn ended(code: i32) -> Option<ProcessEnd> {
    Some(ProcessEnd { code, signal: None, timed_out: false, at_ms: 2 })
}

/// A program called `missing` cannot be started. One called `exit` ends with the given status.
#[async_trait]
impl ProcessPort for StubHost {
    async fn spawn(&self, id: SandboxId, ask: SpawnAsk) -> Result<ProcessView, Fault> {
        self.background.asked.lock().unwrap().push(ask.clone());
        let Program::Argv(argv) = &ask.exec.program else { panic!("no shell line") };
        if argv[0] == "missing" {
            return Err(Fault::new(FaultKind::Caller, "exec.not_found", "no such program"));
        }
        let mut here = self.background.here.lock().unwrap();
        let processes = here.entry(id).or_default();
        let view = ProcessView {
            number: ProcessNumber(processes.len() as u64 + 1),
            pid: 7,
            command: argv.join(" "),
            tag: ask.tag,
            started_ms: 1,
            ended: if argv[0] == "exit" { ended(argv[1].parse().unwrap()) } else { None },
            stdout_bytes: 0,
            stderr_bytes: 0,
            kept_from: 0,
            stdin_open: false,
        };
        processes.push(view.clone());
        Ok(view)
    }

    async fn processes(&self, id: SandboxId) -> Result<Vec<ProcessView>, Fault> {
        Ok(self.background.here.lock().unwrap().get(&id).cloned().unwrap_or_default())
    }

    async fn process(&self, id: SandboxId, number: ProcessNumber) -> Result<ProcessView, Fault> {
        self.background.change(id, number, |process| process.clone())
    }

    async fn attach(&self, id: SandboxId, ask: AttachAsk) -> Result<OutputStream, Fault> {
        let process = self.process(id, ask.process).await?;
        let said = Bytes::from(format!("{} says so", process.command));
        Ok(Box::pin(stream::iter([OutputStep::At(0), OutputStep::Stdout(said), OutputStep::End(process)].map(Ok))))
    }

    async fn signal(&self, id: SandboxId, number: ProcessNumber, signal: i32) -> Result<(), Fault> {
        self.background.signals.lock().unwrap().push(signal);
        self.background.change(id, number, |process| process.ended = ended(128 + signal))
    }

    async fn forget(&self, id: SandboxId, number: ProcessNumber) -> Result<(), Fault> {
        let mut here = self.background.here.lock().unwrap();
        here.entry(id).or_default().retain(|process| process.number != number);
        Ok(())
    }
}
