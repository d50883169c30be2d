//! Processes and directories of the stub host. It records every request and replies with the data
//! that the test prepared.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard},
};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{
    Afterwards, AttachAsk, ByteStream, Change, ChangeStream, InTheWay, OutputStep, OutputStream, ProcessEnd,
    ProcessNumber, ProcessPort, ProcessView, Reach, SpawnAsk, TreePort, Unpacked, WalkAsk, Walked,
};

use crate::stub::{StubHost, entry};

/// Items of one prepared stream.
type Laid<T> = Vec<Result<T, Fault>>;

#[derive(Default)]
pub struct Beyond {
    /// Every request, as text.
    pub asked: Mutex<Vec<String>>,
    /// Output for the next attach.
    pub output: Mutex<VecDeque<Laid<OutputStep>>>,
    /// Changes for the next watch. After them the stream stays silent.
    pub changes: Mutex<VecDeque<Laid<Vec<Change>>>>,
    pub walked: Mutex<Vec<String>>,
}

impl StubHost {
    fn note(&self, question: String) {
        self.beyond.asked.lock().unwrap().push(question);
    }

    pub fn asked(&self) -> MutexGuard<'_, Vec<String>> {
        self.beyond.asked.lock().unwrap()
    }
}

/// A process that runs, or that has ended.
pub fn view(number: u64, ended: Option<ProcessEnd>) -> ProcessView {
    ProcessView {
        number: ProcessNumber(number),
        pid: 42,
        command: "sleep 1".into(),
        tag: None,
        started_ms: 1_700_000_000_000,
        ended,
        stdout_bytes: 5,
        stderr_bytes: 6,
        kept_from: 0,
        stdin_open: false,
    }
}

pub fn missing() -> Fault {
    Fault::new(FaultKind::Missing, "process.not_found", "no such process")
}

async fn whole(mut body: ByteStream) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece?);
    }
    Ok(bytes)
}

#[async_trait]
impl ProcessPort for StubHost {
    async fn spawn(&self, _: SandboxId, ask: SpawnAsk) -> Result<ProcessView, Fault> {
        let SpawnAsk { exec, tag } = ask;
        self.note(format!("spawn {:?} {:?} stdin {} {:?} {tag:?}", exec.program, exec.cwd, exec.stdin, exec.deadline));
        Ok(ProcessView { tag, stdin_open: exec.stdin, ..view(1, None) })
    }

    async fn processes(&self, _: SandboxId) -> Result<Vec<ProcessView>, Fault> {
        Ok(vec![view(1, None), view(2, Some(ProcessEnd { code: 137, signal: Some(9), timed_out: false, at_ms: 5 }))])
    }

    async fn process(&self, _: SandboxId, number: ProcessNumber) -> Result<ProcessView, Fault> {
        match number.0 {
            1 => Ok(view(1, Some(ProcessEnd { code: 3, signal: None, timed_out: false, at_ms: u64::MAX }))),
            _ => Err(missing()),
        }
    }

    async fn attach(&self, _: SandboxId, ask: AttachAsk) -> Result<OutputStream, Fault> {
        self.note(format!("attach {} {} {:?}", ask.process.0, ask.offset, ask.until));
        let steps = self.beyond.output.lock().unwrap().pop_front().ok_or_else(missing)?;
        Ok(Box::pin(stream::iter(steps)))
    }

    async fn feed(
        &self,
        _: SandboxId,
        number: ProcessNumber,
        body: ByteStream,
        afterwards: Afterwards,
    ) -> Result<u64, Fault> {
        let bytes = whole(body).await?;
        self.note(format!("feed {} {:?} {afterwards:?}", number.0, String::from_utf8_lossy(&bytes)));
        Ok(bytes.len() as u64)
    }

    async fn signal(&self, _: SandboxId, number: ProcessNumber, signal: i32) -> Result<(), Fault> {
        self.note(format!("signal {} {signal}", number.0));
        Ok(())
    }

    async fn forget(&self, _: SandboxId, number: ProcessNumber) -> Result<(), Fault> {
        self.note(format!("forget {}", number.0));
        Ok(())
    }
}

#[async_trait]
impl TreePort for StubHost {
    async fn make_dir(&self, _: SandboxId, path: &str, above: Reach) -> Result<(), Fault> {
        self.note(format!("make_dir {path} {above:?}"));
        Ok(())
    }

    async fn move_path(&self, _: SandboxId, from: &str, to: &str, in_the_way: InTheWay) -> Result<(), Fault> {
        self.note(format!("move {from} {to} {in_the_way:?}"));
        Ok(())
    }

    async fn chmod(&self, _: SandboxId, path: &str, mode: u32, below: Reach) -> Result<(), Fault> {
        self.note(format!("chmod {path} {mode:o} {below:?}"));
        Ok(())
    }

    async fn walk(&self, _: SandboxId, ask: WalkAsk) -> Result<Walked, Fault> {
        self.note(format!("walk {} {}", ask.path, ask.depth));
        let entries = self.beyond.walked.lock().unwrap().iter().map(|name| entry(name)).collect();
        Ok(Walked { entries, truncated: true })
    }

    async fn watch(&self, _: SandboxId, path: &str, below: Reach) -> Result<ChangeStream, Fault> {
        self.note(format!("watch {path} {below:?}"));
        let changes = self.beyond.changes.lock().unwrap().pop_front().ok_or_else(missing)?;
        Ok(Box::pin(stream::iter(changes).chain(stream::pending())))
    }

    async fn read_tree(&self, _: SandboxId, path: &str) -> Result<ByteStream, Fault> {
        let lost = Fault::new(FaultKind::Unavailable, "fs.lost", "the sandbox was lost");
        let mut pieces = vec![Ok("tar".into()), Ok("ball".into())];
        if path.ends_with("breaks") {
            pieces.push(Err(lost));
        }
        Ok(Box::pin(stream::iter(pieces)))
    }

    async fn write_tree(&self, _: SandboxId, path: &str, body: ByteStream) -> Result<Unpacked, Fault> {
        let bytes = whole(body).await?.len() as u64;
        self.note(format!("write_tree {path} {bytes}"));
        Ok(Unpacked { entries: 2, bytes })
    }
}
