//! Tests against built binaries and real machines are in `tests/`, their programs in `src/bin`.
//! This file has helpers that several tests share.

pub mod browser;
pub mod cookbook;
mod door;
pub mod drivers;
pub mod fresh_root;
pub mod own_sdk;
pub mod published;
pub mod registry;
mod rig;
pub mod templates;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use pandastack_host::HostSettings;
use pandastack_model::{Fault, SandboxId};
use pandastack_testbed::{Bed, with_bed};
use pandastack_wire_fleet::{ExecEvent, ExecParams, ExecSession, HostPort, Program};

pub use door::{Events, HttpDoor, answer};
pub use pandastack_testbed::PATIENCE;
pub use rig::Rig;

/// Shell commands that release the data volumes of other tests in a new mount namespace.
pub const RELEASE_FOREIGN_VOLUMES: &str = include_str!("foreign_volumes.sh");

/// Runs functions one after the other with the same arguments, each after `clean`. They share what
/// is slow to start. The last one that is named in the output is the one that failed.
#[macro_export]
macro_rules! in_turn {
    ($arguments:tt after $clean:ident: $($promise:ident,)*) => {
        $(
            $clean $arguments .await;
            eprintln!("in turn: {}", stringify!($promise));
            $promise $arguments .await;
        )*
    };
}

/// The project's root folder.
pub fn project() -> PathBuf {
    // Read at run time: clones share one target folder, so a compiled-in path may be another
    // clone's.
    let package = std::env::var("CARGO_MANIFEST_DIR").expect("the test runner says where the package lies");
    Path::new(&package).parent().expect("the package lies in the project").to_path_buf()
}

/// A process from its first to its last event.
#[derive(Debug)]
pub struct FinishedProcess {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// `Exit`, `TimedOut` or `Failed`.
    pub end: ExecEvent,
}

impl FinishedProcess {
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    pub fn code(&self) -> i32 {
        match &self.end {
            ExecEvent::Exit { code } => *code,
            other => panic!("the process ended with {other:?}; it said {:?} and {:?}", self.out(), self.err()),
        }
    }
}

/// A request for a shell line with default options.
pub fn shell(line: &str) -> ExecParams {
    let program = Program::Shell(line.to_owned());
    let deadline = Some(PATIENCE);
    ExecParams { program, cwd: None, env: Default::default(), user: None, stdin: false, deadline, terminal: None }
}

/// A request for a Python script without a shell.
pub fn python(script: &str) -> ExecParams {
    ExecParams { program: Program::Argv(vec!["python3".into(), "-c".into(), script.into()]), ..shell("") }
}

/// Runs a process to its end.
pub async fn run(bed: &Bed, id: SandboxId, ask: ExecParams) -> FinishedProcess {
    collect(start(bed, id, ask).await.expect("the process starts")).await
}

/// Starts a process.
pub async fn start(bed: &Bed, id: SandboxId, ask: ExecParams) -> Result<ExecSession, Fault> {
    bed.host.exec(id, ask).await
}

/// Reads a process to its end. Nothing may come after the last event.
pub async fn collect(mut session: ExecSession) -> FinishedProcess {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        match next(&mut session).await {
            ExecEvent::Stdout(bytes) => stdout.extend_from_slice(&bytes),
            ExecEvent::Stderr(bytes) => stderr.extend_from_slice(&bytes),
            end => {
                let after = tokio::time::timeout(PATIENCE, session.events.recv()).await.expect("the events end");
                assert_eq!(after, None, "an event came after the last one");
                return FinishedProcess { stdout, stderr, end };
            }
        }
    }
}

/// Waits for the next event.
pub async fn next(session: &mut ExecSession) -> ExecEvent {
    let event = tokio::time::timeout(PATIENCE * 2, session.events.recv()).await.expect("an event in time");
    event.expect("an event before the end")
}

/// Reads standard output until it contains a text, and returns all of it.
pub async fn read_until(session: &mut ExecSession, text: &str) -> String {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(text) {
        match next(session).await {
            ExecEvent::Stdout(bytes) => seen.extend_from_slice(&bytes),
            other => panic!("{other:?} came before {text:?}; until then {:?}", Bytes::from(seen)),
        }
    }
    String::from_utf8_lossy(&seen).into_owned()
}

/// Runs a test's body on one cold-started sandbox, alone on its host.
pub async fn with_sandbox(body: impl AsyncFnOnce(&Bed, SandboxId)) {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let id = bed.create().await.expect("a sandbox is created");
            body(bed, id).await;
        },
    )
    .await;
}

/// Settings of a host that makes machines only on demand, so that a test knows the cause of each.
pub fn without_standby() -> HostSettings {
    HostSettings { standby: 0, blanks: 0, ..HostSettings::default() }
}
