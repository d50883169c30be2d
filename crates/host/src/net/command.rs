//! Runs `ip`, `nft` and `tc`: one process per call. Commands go to standard input, and the error
//! holds what the program printed to standard error. Never builds the commands. No input from
//! outside reaches a command line.

use std::{io, process::Stdio};

use pandastack_sys::netns::Netns;
use tokio::{
    io::AsyncWriteExt,
    process::{Child, Command},
    runtime::Handle,
};

use super::limits::COMMAND_DEADLINE;

/// A run of `ip`, `nft` or `tc` that failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("{program} is missing; install iproute2 and nftables")]
    Missing { program: &'static str },
    #[error("run {program}")]
    Run {
        program: &'static str,
        #[source]
        cause: io::Error,
    },
    #[error("{program} failed: {complaint}")]
    Refused { program: &'static str, complaint: String },
    #[error("{program} did not end within {} s", COMMAND_DEADLINE.as_secs())]
    Deadline { program: &'static str },
}

/// One run of a program.
pub struct CommandRun<'a> {
    pub program: &'static str,
    pub arguments: &'a [&'a str],
    /// Written to standard input.
    pub input: &'a str,
    /// The network namespace to run in. `None` means the caller's namespace.
    pub inside: Option<&'a Netns>,
}

impl CommandRun<'_> {
    /// Waits for the program to exit and returns its standard output.
    pub async fn run(&self) -> Result<String, CommandError> {
        let program = self.program;
        match tokio::time::timeout(COMMAND_DEADLINE, self.talk()).await {
            Err(_) => Err(CommandError::Deadline { program }),
            Ok(Err(cause)) if cause.kind() == io::ErrorKind::NotFound => Err(CommandError::Missing { program }),
            Ok(Err(cause)) => Err(CommandError::Run { program, cause }),
            Ok(Ok(output)) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            Ok(Ok(output)) => {
                let complaint = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
                Err(CommandError::Refused { program, complaint })
            }
        }
    }

    async fn talk(&self) -> io::Result<std::process::Output> {
        let mut child = self.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            match stdin.write_all(self.input.as_bytes()).await {
                // The program exited before it read all input. Its exit status and standard error
                // say more than this error.
                Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => {}
                written => written?,
            }
        }
        child.wait_with_output().await
    }

    fn spawn(&self) -> io::Result<Child> {
        let mut command = Command::new(self.program);
        command.args(self.arguments).env("LC_ALL", "C").kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let Some(netns) = self.inside else { return command.spawn() };
        // A child process runs in the namespace of the thread that starts it.
        let runtime = Handle::current();
        netns.run(move || {
            let _entered = runtime.enter();
            command.spawn()
        })?
    }
}

/// Whether a batch continues after a command that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchMode {
    StopAtError,
    /// For removal: one object that is already gone must not keep the others.
    GoOn,
}

/// Runs `ip` commands, one per line, in one process.
pub async fn ip(batch: BatchMode, lines: &str, inside: Option<&Netns>) -> Result<(), CommandError> {
    let arguments: &[&str] = match batch {
        BatchMode::StopAtError => &["-batch", "-"],
        BatchMode::GoOn => &["-force", "-batch", "-"],
    };
    CommandRun { program: "ip", arguments, input: lines, inside }.run().await.map(drop)
}

/// Applies a rule file as one transaction.
pub async fn nft(rules: &str, inside: Option<&Netns>) -> Result<(), CommandError> {
    CommandRun { program: "nft", arguments: &["-f", "-"], input: rules, inside }.run().await.map(drop)
}

/// Runs `tc` commands, one per line, in one process.
pub async fn tc(lines: &str, inside: Option<&Netns>) -> Result<(), CommandError> {
    CommandRun { program: "tc", arguments: &["-batch", "-"], input: lines, inside }.run().await.map(drop)
}

/// Returns the output of a listing command.
pub async fn list(program: &'static str, arguments: &[&str]) -> Result<String, CommandError> {
    CommandRun { program, arguments, input: "", inside: None }.run().await
}
