//! Starts the QEMU process inside its network namespace and watches it die. Knows nothing of what runs in it.

use std::{
    os::fd::OwnedFd,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use command_fds::{CommandFdExt, FdMapping};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_kit::Scope;
use pandastack_sys::netns::Netns;
use pandastack_vmm::{MachineState, StartError};
use tokio::{process::Child, sync::watch};

use crate::{
    bundle::Bundle,
    command::{MONITOR_FD, STATE_FD},
    limits::{KILL_DEADLINE, LOG_TAIL_BYTES},
};

/// A started process.
pub struct Process {
    pid: u32,
    state: watch::Receiver<MachineState>,
    log: PathBuf,
}

/// What a process is started with.
pub struct Launch<'a> {
    pub bundle: &'a Bundle,
    pub arguments: Vec<String>,
    pub netns: &'a Netns,
    pub run_dir: &'a Path,
    /// Device state to load, inherited as an open file so that the process needs no path to it.
    pub state: Option<std::fs::File>,
}

/// The monitor's socket in a machine's folder.
pub fn monitor_socket(run_dir: &Path) -> PathBuf {
    run_dir.join("qmp")
}

impl Process {
    /// Starts the process. Its monitor can be connected to at once: we listen for it, it only accepts.
    pub fn start(launch: Launch<'_>, scope: &Scope) -> Result<Self, StartError> {
        let log = launch.run_dir.join("machine.log");
        let mut command = launch.bundle.command();
        command.args(&launch.arguments).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::from(std::fs::File::create(&log).map_err(StartError::Spawn)?));
        let monitor = UnixListener::bind(monitor_socket(launch.run_dir)).map_err(StartError::Spawn)?;
        let mut mappings = vec![FdMapping { parent_fd: OwnedFd::from(monitor), child_fd: MONITOR_FD }];
        if let Some(state) = launch.state {
            mappings.push(FdMapping { parent_fd: OwnedFd::from(state), child_fd: STATE_FD });
        }
        command.fd_mappings(mappings).map_err(|error| StartError::Spawn(std::io::Error::other(error)))?;
        // A group of its own: Ctrl-C in the server's terminal is the server's business.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let runtime = tokio::runtime::Handle::current();
        // The child is born in the namespace of the thread that starts it.
        let child = launch
            .netns
            .run(move || {
                let _inside = runtime.enter();
                tokio::process::Command::from(command).kill_on_drop(false).spawn()
            })
            .map_err(|cause| StartError::Network { netns: launch.run_dir.to_owned(), cause })?
            .map_err(StartError::Spawn)?;
        let pid = child.id().ok_or_else(|| StartError::Died { log: tail(&log) })?;
        let (tx, state) = watch::channel(MachineState::Alive);
        scope.start("machine-watch", watch_death(child, tx, log.clone()));
        Ok(Self { pid, state, log })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn watch(&self) -> watch::Receiver<MachineState> {
        self.state.clone()
    }

    /// Gives the last words of the process.
    pub fn last_words(&self) -> String {
        tail(&self.log)
    }

    /// Kills the process and waits until it is reaped.
    pub async fn kill(&self) {
        let mut state = self.state.clone();
        if *state.borrow() == MachineState::Alive {
            // The watcher reaps, so the number cannot have been given to another process while the state is alive.
            let _ = kill(Pid::from_raw(self.pid as i32), Signal::SIGKILL);
        }
        let dead = state.wait_for(|state| *state != MachineState::Alive);
        if tokio::time::timeout(KILL_DEADLINE, dead).await.is_err() {
            tracing::error!(pid = self.pid, "machine process survives SIGKILL");
        }
    }
}

async fn watch_death(mut child: Child, tx: watch::Sender<MachineState>, log: PathBuf) {
    let reason = match child.wait().await {
        Ok(status) => describe(status, &tail(&log)),
        Err(error) => format!("cannot be waited for: {error}"),
    };
    let _ = tx.send(MachineState::Dead { reason });
}

fn describe(status: ExitStatus, log: &str) -> String {
    use std::os::unix::process::ExitStatusExt;
    let last = log.lines().last().unwrap_or_default();
    let how = match (status.signal(), status.code()) {
        (Some(9), _) => "killed by signal 9".to_owned(),
        (Some(signal), _) => format!("ended by signal {signal}"),
        (None, Some(0)) => "the guest powered off".to_owned(),
        (None, code) => format!("exited with status {}", code.unwrap_or(-1)),
    };
    if last.is_empty() { how } else { format!("{how}: {last}") }
}

fn tail(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let from = bytes.len().saturating_sub(LOG_TAIL_BYTES);
    String::from_utf8_lossy(&bytes[from..]).trim().to_owned()
}
