//! Starts a template's command (`ENTRYPOINT` and `CMD`) before the template is sealed, so that its
//! sandboxes begin with it running. A command that ends does not fail the build: many images name a
//! shell, which ends at once without input.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{
    AttachParams, ExecParams, FollowUntil, OutputEvent, ProcessEnd, ProcessNumber, Program, SpawnParams,
};
use tokio::time::sleep;

use super::{
    TemplateSettings,
    dockerfile::limits::STEP_TEXT_SHOWN_MAX,
    drive::left,
    failure::BuildFailure,
    machine::{BuildMachine, LineCollector, ROOT},
};
use crate::limits::{START_LOOK, START_READY_MAX, START_SETTLE, START_STOP_MAX};

/// Tag of the command's process in every sandbox of the template.
const TAG: &str = "template.start";

const TERMINATE: i32 = 15;

/// State of the command at the end of the wait.
enum CommandState {
    /// A process listens on an exposed port.
    Listens(u16),
    Runs,
    Ended(ProcessEnd),
}

impl BuildMachine<'_> {
    /// Starts the template's command and waits until it is ready. Returns whether it runs.
    pub(super) async fn start_command(&self, settings: &TemplateSettings) -> Result<bool, BuildFailure> {
        let TemplateSettings { env, workdir, user, entrypoint, cmd, ports, .. } = settings;
        let argv: Vec<String> = entrypoint.iter().chain(cmd).cloned().collect();
        if argv.is_empty() {
            return Ok(false);
        }
        let log = &self.job.log;
        let shown: String = argv.join(" ").chars().take(STEP_TEXT_SHOWN_MAX).collect();
        if !self.job.ask.start {
            log.say(format!("the template's command is not started: {shown}")).await;
            return Ok(false);
        }
        log.say(format!("starting the template's command: {shown}")).await;
        let exec = ExecParams {
            program: Program::Argv(argv),
            cwd: Some(workdir.clone().unwrap_or_else(|| "/".to_owned())),
            env: env.clone(),
            user: Some(user.clone().unwrap_or_else(|| ROOT.to_owned())),
            stdin: false,
            deadline: None,
            terminal: None,
        };
        let number = match self.control.host.spawn(self.id, SpawnParams { exec, tag: Some(TAG.to_owned()) }).await {
            Ok(process) => process.number,
            Err(fault) if fault.kind == FaultKind::Bug => return Err(fault.into()),
            Err(fault) => {
                log.say(format!(
                    "note: the command cannot be started ({}); the template is built without it",
                    fault.text
                ))
                .await;
                return Ok(false);
            }
        };
        let outcome = self.wait_ready(number, ports.iter().copied().collect()).await?;
        self.show_output(number).await?;
        match outcome {
            CommandState::Listens(port) => log.say(format!("the command listens on port {port}")).await,
            CommandState::Runs if ports.is_empty() => log.say("the command runs").await,
            CommandState::Runs => {
                let text = format!(
                    "note: the command runs, but listens on no exposed port after {} s",
                    START_READY_MAX.as_secs()
                );
                log.say(text).await;
            }
            CommandState::Ended(ProcessEnd { code, .. }) => {
                log.say(format!("note: the command ended with exit status {code}; sandboxes start without it")).await;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until the command listens on an exposed port. Without exposed ports, waits briefly.
    async fn wait_ready(&self, number: ProcessNumber, ports: Vec<u16>) -> Result<CommandState, BuildFailure> {
        let wait = if ports.is_empty() { START_SETTLE } else { START_READY_MAX };
        let until = Instant::now() + wait.min(left(self.deadline));
        loop {
            let process = self.control.host.process(self.id, number).await?;
            if let Some(end) = process.ended {
                return Ok(CommandState::Ended(end));
            }
            let listening = if ports.is_empty() { Vec::new() } else { self.control.host.listening(self.id).await? };
            if let Some(found) = listening.iter().find(|found| ports.contains(&found.port.get())) {
                return Ok(CommandState::Listens(found.port.get()));
            }
            if Instant::now() >= until {
                return Ok(CommandState::Runs);
            }
            sleep(START_LOOK).await;
        }
    }

    /// Writes the command's output so far to the log.
    async fn show_output(&self, process: ProcessNumber) -> Result<(), BuildFailure> {
        let ask = AttachParams { process, offset: 0, until: FollowUntil::Now };
        let mut output = self.control.host.attach(self.id, ask).await?;
        let (mut stdout, mut stderr) = (LineCollector::default(), LineCollector::default());
        while let Some(step) = output.next().await {
            let (lines, piece) = match step? {
                OutputEvent::Stdout(piece) => (&mut stdout, piece),
                OutputEvent::Stderr(piece) => (&mut stderr, piece),
                OutputEvent::At(_) => continue,
                OutputEvent::End(_) => break,
            };
            if let Some(text) = lines.push(&piece) {
                self.job.log.output(&text).await;
            }
        }
        for rest in [stdout.finish(), stderr.finish()].into_iter().flatten() {
            self.job.log.output(&rest).await;
        }
        Ok(())
    }

    /// Stops a command that the machine inherited from its base. Steps then find no server that
    /// they did not start, and another command can replace it.
    pub(super) async fn stop_inherited(&self) -> Result<(), BuildFailure> {
        for number in self.started().await? {
            let host = &self.control.host;
            // A process that has ended since needs no signal.
            let _ = host.signal(self.id, number, TERMINATE).await;
            let until = Instant::now() + START_STOP_MAX.min(left(self.deadline));
            while host.process(self.id, number).await?.ended.is_none() && Instant::now() < until {
                sleep(Duration::from_millis(100)).await;
            }
            host.forget(self.id, number).await?;
        }
        Ok(())
    }

    /// Reports whether the command of a new template runs in a sandbox of it.
    pub(super) async fn is_started(&self) -> Result<bool, BuildFailure> {
        let mut running = false;
        for number in self.started().await? {
            running |= self.control.host.process(self.id, number).await?.ended.is_none();
        }
        Ok(running)
    }

    /// Lists the processes that were started as a template's command, ended ones too.
    async fn started(&self) -> Result<Vec<ProcessNumber>, BuildFailure> {
        let ours = match self.control.host.processes(self.id).await {
            Ok(processes) => processes,
            // An older guest does not support processes.
            Err(Fault { kind: FaultKind::Conflict, .. }) => Vec::new(),
            Err(fault) => return Err(fault.into()),
        };
        Ok(ours
            .into_iter()
            .filter(|process| process.tag.as_deref() == Some(TAG))
            .map(|process| process.number)
            .collect())
    }
}
