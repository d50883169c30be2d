//! The emulated computer: one QEMU process with a timeout, which ends when this process ends.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::emulator::Emulator;

const LOOK_EVERY: Duration = Duration::from_millis(50);
const CONSOLE_LINES_SHOWN: usize = 90;

/// Parameters of one run of the computer.
pub struct Computer {
    pub emulator: Emulator,
    pub kernel: PathBuf,
    pub root: PathBuf,
    pub data: PathBuf,
    pub memory_mib: u32,
    pub console: Console,
    pub deadline: Duration,
}

/// Destination of the kernel's messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Console {
    Shown,
    /// A file. Its end is shown if the command could not be run.
    Kept,
}

impl Computer {
    /// Starts the computer, waits for its end and returns the exit code of its command.
    pub fn run(&self, scratch: &Path) -> Result<ExitCode> {
        let begin = Instant::now();
        let log = scratch.join("qemu.log");
        let mut child = self.command(scratch).stderr(File::create(&log)?).spawn().context("start qemu")?;
        let ended = wait(&mut child, self.deadline)?;
        let code = fs::read_to_string(scratch.join("code")).unwrap_or_default();
        eprintln!("kvm-host: {:.1} s", begin.elapsed().as_secs_f32());
        if let Ok(code) = code.trim().parse::<u8>() {
            return Ok(ExitCode::from(code));
        }
        eprint!("{}", last_lines(&log));
        eprint!("{}", last_lines(&scratch.join("console")));
        match ended {
            RunEnd::ByItself => bail!("the machine ended before the command did; its last messages are above"),
            RunEnd::TooLate => {
                bail!("not done after {} s (--timeout); its last messages are above", self.deadline.as_secs())
            }
        }
    }

    fn command(&self, scratch: &Path) -> Command {
        // The computer ends with this process, even if it is killed.
        let mut qemu = Command::new("setpriv");
        qemu.args(["--pdeathsig", "KILL", "--"]).args(self.emulator.words());
        qemu.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        // Four-level page tables: with five the emulated kernel sometimes dies in its page fault
        // handler (decision 2).
        qemu.args([
            "-M",
            "pc",
            "-accel",
            "tcg",
            "-cpu",
            "max,la57=off",
            "-smp",
            "1",
            "-m",
            &self.memory_mib.to_string(),
        ]);
        qemu.arg("-kernel").arg(&self.kernel);
        // Emulated CPUs share one counter. Without this option the kernel distrusts it and falls
        // back to a slow clock.
        qemu.args([
            "-append",
            "root=/dev/nvme0n1 rw init=/sbin/first-init console=ttyS0 quiet panic=-1 oops=panic softlockup_panic=1 \
                mitigations=off tsc=reliable",
        ]);
        // The kernel has NVMe and ext4 built in. The cached root image is never written: changes go
        // to a temporary file.
        for (name, path, change) in [("root", &self.root, "on"), ("data", &self.data, "off")] {
            let drive = format!("if=none,id={name},format=raw,cache=unsafe,snapshot={change},file={}", path.display());
            qemu.arg("-drive").arg(drive).arg("-device").arg(format!("nvme,serial={name},drive={name}"));
        }
        qemu.args(["-nic", "user,model=virtio-net-pci", "-device", "virtio-rng-pci", "-device", "virtio-serial-pci"]);
        qemu.args(["-chardev", "stdio,id=output,signal=on", "-device", "virtserialport,nr=1,chardev=output"]);
        let code = format!("file,id=code,path={}", scratch.join("code").display());
        qemu.args(["-chardev", &code, "-device", "virtserialport,nr=2,chardev=code"]);
        let console = match self.console {
            Console::Shown => PathBuf::from(format!("/proc/{}/fd/2", std::process::id())),
            Console::Kept => scratch.join("console"),
        };
        let console = format!("file,id=console,append=on,path={}", console.display());
        qemu.args(["-chardev", &console, "-serial", "chardev:console"]);
        // The output port closes when its input ends, so the input stays open and silent.
        qemu.env("TMPDIR", scratch).stdin(Stdio::piped());
        qemu
    }
}

enum RunEnd {
    ByItself,
    TooLate,
}

fn wait(child: &mut Child, deadline: Duration) -> Result<RunEnd> {
    let until = Instant::now() + deadline;
    while child.try_wait().context("look after qemu")?.is_none() {
        if Instant::now() >= until {
            child.kill().context("stop qemu")?;
            child.wait().context("await qemu")?;
            return Ok(RunEnd::TooLate);
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(RunEnd::ByItself)
}

fn last_lines(file: &Path) -> String {
    let text = fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(CONSOLE_LINES_SHOWN)..].iter().map(|line| format!("  | {line}\n")).collect()
}
