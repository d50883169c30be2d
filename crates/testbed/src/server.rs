//! The built `pandastack` binary as a separate process, for tests that kill it.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{PATIENCE, complaints::complaints};

/// How long a dropped server may take to stop.
const STOP_DEADLINE: Duration = Duration::from_secs(60);

/// A running `pandastack up`. Stopped on drop.
pub struct TestServer {
    child: Child,
    pub url: String,
    pub key: String,
    log: PathBuf,
}

/// Finds a built binary of the same profile as the caller: tests build a server without
/// optimization, `make bench` a release. `PANDASTACK_BINARIES` names another folder.
pub fn built(name: &str) -> PathBuf {
    if let Some(folder) = std::env::var_os("PANDASTACK_BINARIES") {
        return Path::new(&folder).join(name);
    }
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| home.join(".cache/pandastack/target"), PathBuf::from);
    target.join(if cfg!(debug_assertions) { "debug" } else { "release" }).join(name)
}

impl TestServer {
    /// Starts the server on a free port over a data folder and waits until it is ready.
    pub fn start(data_dir: &Path, arguments: &[&str]) -> Result<Self> {
        Self::start_with(data_dir, |command| {
            command.arg("--no-config").args(arguments);
        })
    }

    /// As `start`, with the test's arguments and environment.
    pub fn start_with(data_dir: &Path, configure: impl FnOnce(&mut Command)) -> Result<Self> {
        let mut server = Self::spawn(data_dir, configure)?;
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Starts the server without waiting until it is ready.
    pub fn begin(data_dir: &Path, arguments: &[&str]) -> Result<Self> {
        Self::spawn(data_dir, |command| {
            command.arg("--no-config").args(arguments);
        })
    }

    fn spawn(data_dir: &Path, configure: impl FnOnce(&mut Command)) -> Result<Self> {
        let key = "pds_00112233445566778899aabbccddeeff".to_owned();
        let log = data_dir.with_extension("server.log");
        let out = std::fs::File::create(&log)?;
        let mut command = Command::new(built("pandastack"));
        command
            .args(["up", "--listen", "127.0.0.1:0", "--db-listen", "127.0.0.1:0", "--data-dir"])
            .arg(data_dir)
            .env("PANDASTACK_BOOTSTRAP_KEY", &key)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out);
        configure(&mut command);
        let child = command.spawn().context("start pandastack; `make test-build` builds it")?;
        Ok(Self { child, url: String::new(), key, log })
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = self.said();
            if said.contains("ready; stop") {
                let url = said
                    .split_whitespace()
                    .find(|word| ["http://", "https://"].iter().any(|scheme| word.starts_with(scheme)));
                self.url = url.context("the server did not say where it listens")?.to_owned();
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status}: {said}");
            }
            if Instant::now() > deadline {
                bail!("the server was not ready in time: {said}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// All output of the server so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Warnings and errors that no slow machine causes.
    pub fn complaints(&self) -> Vec<String> {
        complaints(&self.said()).into_iter().map(str::to_owned).collect()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Kills the server after a delay.
    pub fn kill_after(&mut self, delay: Duration) -> Result<()> {
        std::thread::sleep(delay);
        self.kill()
    }

    /// Stops the server as Ctrl-C does, and returns its exit code.
    pub fn stop(&mut self) -> Result<Option<i32>> {
        Command::new("kill").args(["-INT", &self.child.id().to_string()]).status()?;
        Ok(self.child.wait()?.code())
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // Stopped first, so that a failed test leaves no machines behind.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        }
        let deadline = Instant::now() + STOP_DEADLINE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}
