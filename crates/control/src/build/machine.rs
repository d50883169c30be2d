//! The machine that a build's steps run in: a sandbox that no caller sees. Output goes to the
//! build's log.

use std::{
    io,
    time::{Duration, Instant},
};

use futures_util::{Stream, StreamExt};
use pandastack_model::{ByteSize, Fault, FaultKind, LayerId, SandboxId, SandboxOrigin, SandboxSpec, VolumeMount};
use pandastack_wire_fleet::{
    EnsureParams, ExecControl, ExecEvent, ExecParams, ExecSession, LayerHold, Program, SealParams, WriteParams,
};
use pandastack_wire_public::TextTail;
use tokio::sync::mpsc;

use super::{
    TemplateSettings,
    drive::{BuildBase, BuildJob, left},
    failure::BuildFailure,
    plan::{ChangeAction, MachineChange, RunCommand},
};
use crate::{
    Control,
    limits::{BUILDER_IDLE_SECONDS, BUILDER_ROOM_MAX, BUILDER_ROOM_RETRY},
    store::BuildResource,
};

/// Path of a step's script while it runs.
const SCRIPT: &str = "/tmp/.pandastack-step";

/// User of steps that name none. A number, because a root file system may have no user names.
pub(super) const ROOT: &str = "0";

/// Timeout of one of our own small commands.
pub const ERRAND_MAX: Duration = Duration::from_secs(120);

/// A running machine of a build.
pub struct BuildMachine<'a> {
    pub(super) control: &'a Control,
    pub(super) job: &'a BuildJob,
    pub(super) id: SandboxId,
    pub(super) deadline: Instant,
}

impl<'a> BuildMachine<'a> {
    /// Starts a machine from a layer. Retries for a while if the host is full.
    pub async fn start(
        control: &'a Control,
        job: &'a BuildJob,
        ground: &BuildBase,
        origin: SandboxOrigin,
        deadline: Instant,
    ) -> Result<Self, BuildFailure> {
        Self::start_as(control, job, SandboxSpec { origin, ..SandboxSpec::of(ground.template.clone()) }, deadline).await
    }

    /// Starts a machine with volumes.
    pub async fn start_with(
        control: &'a Control,
        job: &'a BuildJob,
        ground: &BuildBase,
        volumes: Vec<VolumeMount>,
        deadline: Instant,
    ) -> Result<Self, BuildFailure> {
        Self::start_as(control, job, SandboxSpec { volumes, ..SandboxSpec::of(ground.template.clone()) }, deadline)
            .await
    }

    async fn start_as(
        control: &'a Control,
        job: &'a BuildJob,
        spec: SandboxSpec,
        deadline: Instant,
    ) -> Result<Self, BuildFailure> {
        let id = SandboxId::random();
        let owner = control.owner(&job.build.workspace).await?;
        let spec = SandboxSpec { owner, ttl_seconds: BUILDER_IDLE_SECONDS, ..spec };
        control.store.hold(job.build.id, BuildResource::Sandbox(id)).await?;
        let started = Instant::now();
        loop {
            match control.host.ensure(EnsureParams { id, generation: 1, spec: spec.clone() }).await {
                Ok(_) => return Ok(Self { control, job, id, deadline }),
                Err(fault)
                    if matches!(fault.kind, FaultKind::Busy | FaultKind::Storage | FaultKind::Quota)
                        && started.elapsed() < BUILDER_ROOM_MAX.min(left(deadline)) =>
                {
                    tokio::time::sleep(BUILDER_ROOM_RETRY).await;
                }
                Err(fault) => return Err(BuildFailure::from(fault).at("starting the build's machine")),
            }
        }
    }

    /// Applies a step's change to the machine.
    pub async fn change(&self, change: &MachineChange) -> Result<(), BuildFailure> {
        self.make_folders(&change.folders).await?;
        match &change.verb {
            ChangeAction::Run(run) => self.run(run).await,
            ChangeAction::Place(place) => self.place(place).await,
            // `Take` needs a second machine, so the build handles it.
            ChangeAction::Take(_) => Err(BuildFailure::new("files of another stage must be copied by the build")),
        }
    }

    /// Makes the folders that do not exist.
    pub async fn make_folders(&self, folders: &[String]) -> Result<(), BuildFailure> {
        if folders.is_empty() {
            return Ok(());
        }
        let words = ["mkdir", "-p", "--"].into_iter().map(str::to_owned);
        self.run_as_root(words.chain(folders.iter().cloned()).collect()).await
    }

    async fn run(&self, run: &RunCommand) -> Result<(), BuildFailure> {
        let RunCommand { argv, script, env, cwd, user } = run;
        let argv = match script {
            None => argv.clone(),
            Some(body) => {
                let body = bytes::Bytes::from(body.clone().into_bytes());
                let body = Box::pin(futures_util::stream::iter([Ok(body)]));
                let ask = WriteParams { path: SCRIPT.to_owned(), mode: Some(0o755) };
                self.control.host.write_file(self.id, ask, body).await?;
                vec![SCRIPT.to_owned()]
            }
        };
        let ask = ExecParams {
            program: Program::Argv(argv),
            cwd: cwd.clone(),
            env: env.clone(),
            user: Some(user.clone().unwrap_or_else(|| ROOT.to_owned())),
            stdin: false,
            deadline: Some(left(self.deadline)),
            terminal: None,
        };
        let ran = self.exec(ask).await;
        if script.is_some() {
            self.control.host.delete_path(self.id, SCRIPT).await?;
        }
        ran
    }

    /// Runs one of our own commands as root.
    pub(super) async fn run_as_root(&self, argv: Vec<String>) -> Result<(), BuildFailure> {
        let ask = ExecParams {
            program: Program::Argv(argv),
            cwd: Some("/".to_owned()),
            user: Some(ROOT.to_owned()),
            ..ExecParams::shell("", ERRAND_MAX.min(left(self.deadline)))
        };
        self.exec(ask).await
    }

    /// Runs one of our own scripts as root.
    pub(super) async fn shell(&self, script: &str) -> Result<(), BuildFailure> {
        self.run_as_root(["/bin/sh", "-c", script].map(str::to_owned).to_vec()).await
    }

    /// Runs a command as root with input, until the build's deadline.
    pub(super) async fn feed(
        &self,
        argv: Vec<String>,
        mut input: impl Stream<Item = io::Result<bytes::Bytes>> + Unpin,
    ) -> Result<(), BuildFailure> {
        let ask = ExecParams {
            program: Program::Argv(argv),
            user: Some(ROOT.to_owned()),
            stdin: true,
            ..ExecParams::shell("", left(self.deadline))
        };
        let ExecSession { events, control } = self.control.host.exec(self.id, ask).await?;
        let feeding = async {
            while let Some(piece) = input.next().await {
                let piece = piece.map_err(|error| BuildFailure::from(Fault::bug(error)))?;
                // A command that ended reports it itself.
                if control.send(ExecControl::Stdin(piece)).await.is_err() {
                    return Ok(());
                }
            }
            let _ = control.send(ExecControl::CloseStdin).await;
            Ok(())
        };
        let (ended, fed): (_, Result<(), BuildFailure>) = tokio::join!(self.hear(events), feeding);
        ended.and(fed)
    }

    /// Runs a command and writes its output to the log.
    async fn exec(&self, ask: ExecParams) -> Result<(), BuildFailure> {
        let running = self.control.host.exec(self.id, ask).await?;
        self.hear(running.events).await
    }

    async fn hear(&self, mut events: mpsc::Receiver<ExecEvent>) -> Result<(), BuildFailure> {
        let log = &self.job.log;
        let (mut stdout, mut stderr) = (LineCollector::default(), LineCollector::default());
        let ended = loop {
            let (lines, piece) = match events.recv().await {
                Some(ExecEvent::Stdout(piece)) => (&mut stdout, piece),
                Some(ExecEvent::Stderr(piece)) => (&mut stderr, piece),
                Some(ExecEvent::Exit { code: 0 }) => break Ok(()),
                Some(ExecEvent::Exit { code }) => break Err(BuildFailure::new(format!("exit status {code}"))),
                Some(ExecEvent::TimedOut { .. }) => {
                    break Err(BuildFailure::new("timeout: the build took too long"));
                }
                Some(ExecEvent::Failed(fault)) => break Err(fault.into()),
                None => break Err(BuildFailure::new("the connection to the build machine was lost")),
            };
            if let Some(text) = lines.push(&piece) {
                log.output(&text).await;
            }
        };
        for rest in [stdout.finish(), stderr.finish()].into_iter().flatten() {
            log.output(&rest).await;
        }
        ended
    }

    /// Seals the machine, which keeps running. Returns the bytes that only this layer uses.
    pub async fn seal(&self, layer: LayerId) -> Result<ByteSize, BuildFailure> {
        let sealed = self.control.host.seal(self.id, SealParams { layer, hold: LayerHold::Kept }).await?;
        Ok(sealed.own)
    }

    /// Seals the machine as a template.
    pub async fn seal_template(&self, layer: LayerId, settings: &TemplateSettings) -> Result<(), BuildFailure> {
        let ask = SealParams { layer, hold: LayerHold::Kept };
        self.control.host.seal_as(self.id, ask, super::exec_defaults(settings)).await?;
        Ok(())
    }

    /// Runs a command with the template's settings, as its sandboxes will.
    pub async fn test_command(&self, settings: &TemplateSettings) -> Result<(), BuildFailure> {
        let tried = self.exec(ExecParams::shell(":", ERRAND_MAX.min(left(self.deadline)))).await;
        match tried {
            Err(failure) if settings.user.is_some() || settings.workdir.is_some() => {
                Err(failure.at("starting a command as the template's USER in its WORKDIR"))
            }
            Err(failure) => {
                self.job.log.say(format!("note: the template cannot run shell commands ({failure})")).await;
                Ok(())
            }
            Ok(()) => Ok(()),
        }?;
        if settings.started && !self.is_started().await? {
            self.job.log.say("note: the template's command does not run in a new sandbox").await;
        }
        Ok(())
    }

    /// Removes the machine.
    pub async fn end(self) -> Result<(), BuildFailure> {
        self.control.host.remove(self.id).await?;
        self.control.store.forget_resource(BuildResource::Sandbox(self.id)).await?;
        Ok(())
    }
}

/// Collects output into whole lines.
#[derive(Default)]
pub(super) struct LineCollector {
    tail: TextTail,
    unfinished: String,
}

/// An unfinished line of this length is passed on as it is.
const UNFINISHED_BYTES_MAX: usize = 16 * 1024;

impl LineCollector {
    /// Adds a piece and returns the finished lines, without the last line end.
    pub(super) fn push(&mut self, piece: &[u8]) -> Option<String> {
        self.unfinished.push_str(&self.tail.push(piece));
        match self.unfinished.rfind('\n') {
            Some(end) => {
                let rest = self.unfinished.split_off(end + 1);
                let mut text = std::mem::replace(&mut self.unfinished, rest);
                text.pop();
                Some(text)
            }
            None if self.unfinished.len() > UNFINISHED_BYTES_MAX => Some(std::mem::take(&mut self.unfinished)),
            None => None,
        }
    }

    pub(super) fn finish(mut self) -> Option<String> {
        self.unfinished.push_str(&self.tail.finish());
        (!self.unfinished.is_empty()).then_some(self.unfinished)
    }
}
