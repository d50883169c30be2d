//! Starts a machine's process, or takes over one that an earlier host process started, and watches
//! for its death. Knows nothing about the guest.

use std::{
    ffi::CString,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    sync::Arc,
};

use pandastack_kit::Scope;
use pandastack_sys::{
    cgroup::{Cgroup, CgroupError, CgroupHierarchy, CgroupLimits},
    filter::{OpenCalls, SeccompListener},
    jail::{self, Confinement, JailError, JailedProcess},
    mounts::MountTree,
    netns::Netns,
    oom,
    pidfd::{ChildExit, Pidfd},
};
use pandastack_vmm::{MachineLimits, MachineSpec, MachineStartError, MachineState, group_of};
use tokio::{
    io::unix::AsyncFd,
    sync::{oneshot, watch},
};

use crate::{
    command::{CONSOLE_FD, DISK_FD, MONITOR_FD, STATE_FD, TAP_FD, USER_FD},
    jail::{InheritedFiles, Jail, JailUser, RUNTIME, failed},
    limits::{CONSOLE_TAIL_BYTES, FILE_BYTES_MAX, KILL_DEADLINE, LOG_TAIL_BYTES},
    runtime::Runtime,
};

/// A process that runs a machine.
pub struct QemuProcess {
    pid: u32,
    handle: Arc<AsyncFd<Pidfd>>,
    state: watch::Receiver<MachineState>,
    log: PathBuf,
}

/// Parameters of a process start.
pub struct QemuLaunch<'a> {
    pub runtime: &'a Runtime,
    pub jail: Jail,
    pub users: &'a Range<u32>,
    pub spec: &'a MachineSpec,
    pub arguments: Vec<String>,
    pub netns: &'a Netns,
    /// Mounts beside the runtime, in a jail.
    pub mounts: Vec<(MountTree, CString)>,
    /// Whether the process must wait for its memory.
    pub opens: OpenCalls,
    /// Device state to load.
    pub state: Option<File>,
    pub limited: LimitTiming,
    /// Memory limit of all machines of this server together.
    pub memory_of_all: Option<u64>,
}

/// When a process enters its control group. That takes milliseconds, so a process that does not run
/// its guest yet does it during its own start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitTiming {
    /// Before its first instruction.
    FromTheStart,
    /// Before the machine is returned.
    Meanwhile,
}

/// A started process. Its memory must be passed to it if `opens` is set.
pub struct StartedProcess {
    pub process: QemuProcess,
    pub entering: EnteringCgroup,
    pub opens: Option<SeccompListener>,
}

/// A process that is entering its control group.
pub struct EnteringCgroup(Option<oneshot::Receiver<Result<(), MachineStartError>>>);

impl EnteringCgroup {
    /// Waits until the process has entered.
    pub async fn done(self) -> Result<(), MachineStartError> {
        match self.0 {
            None => Ok(()),
            Some(entered) => {
                entered.await.unwrap_or_else(|error| Err(MachineStartError::Spawn(io::Error::other(error))))
            }
        }
    }
}

/// The monitor's socket in a machine's folder.
pub fn monitor_socket(run_dir: &Path) -> PathBuf {
    run_dir.join("qmp")
}

impl QemuProcess {
    /// Starts the process. Its monitor can be connected to at once: the socket already listens, and
    /// the process only accepts.
    pub fn start(launch: QemuLaunch<'_>, scope: &Scope) -> Result<StartedProcess, MachineStartError> {
        let QemuLaunch { spec, jail, .. } = launch;
        let log = spec.run_dir.join("machine.log");
        let group = CgroupHierarchy::find().map(|tree| tree.group(&group_of(&spec.run_dir)));
        let group = unless(jail, "find its control groups", group)?;
        let entrances = match &group {
            Some(group) if launch.limited == LimitTiming::FromTheStart => {
                let open = limit(group, &limits(spec), launch.memory_of_all).and_then(|()| group.entrances());
                unless(jail, "create its control groups", open)?.unwrap_or_default()
            }
            _ => Vec::new(),
        };
        let started = match start(&launch, &log, &entrances) {
            Ok(started) => started,
            Err(error) => {
                if let Some(group) = group {
                    group.remove();
                }
                return Err(error);
            }
        };
        // The process inherited the server's score, which protects it from the OOM killer.
        if let Err(error) = oom::set_score(started.pid, oom::MACHINE_SCORE) {
            tracing::debug!(pid = started.pid, %error, "could not set the OOM score of a machine process");
        }
        let entering = match &group {
            Some(group) if launch.limited == LimitTiming::Meanwhile => {
                let (group, limits, pid, inner) = (group.clone(), limits(spec), started.pid, scope.clone());
                let of_all = launch.memory_of_all;
                let enter =
                    move || unless(jail, "enter its control groups", enter(&group, &limits, of_all, pid)).map(drop);
                let (tx, entered) = oneshot::channel();
                scope.start("machine-groups", async move {
                    if let Ok(outcome) = inner.block("machine-groups", enter).await {
                        let _ = tx.send(outcome);
                    }
                });
                EnteringCgroup(Some(entered))
            }
            _ => EnteringCgroup(None),
        };
        let console = spec.run_dir.join("console.log");
        let watched = DeathSources { log, console, group, memory: spec.limits.memory };
        let process = Self::watched(started.pid, started.handle, watched, scope).map_err(MachineStartError::Spawn)?;
        Ok(StartedProcess { process, entering, opens: started.opens })
    }

    /// Takes over a live process of an earlier host process.
    pub fn adopt(spec: &MachineSpec, pid: u32, jail: Jail, scope: &Scope) -> Result<Self, MachineStartError> {
        let stranger = |_| MachineStartError::Stranger { pid };
        let handle = Pidfd::open(pid).map_err(stranger)?;
        // Read after the handle was opened. If another process got this pid before that, its group
        // differs. If one gets it later, the handle reports a dead process.
        let group = Cgroup::of(pid, &group_of(&spec.run_dir));
        // Every jailed machine is in its group. Without a jail there may be no groups, and only the
        // process's arguments identify it.
        if group.is_none() && (jail == Jail::Full || !names_folder(pid, &spec.run_dir)) {
            return Err(MachineStartError::Stranger { pid });
        }
        let (log, console) = (spec.run_dir.join("machine.log"), spec.run_dir.join("console.log"));
        let watched = DeathSources { log, console, group, memory: spec.limits.memory };
        Self::watched(pid, handle, watched, scope).map_err(MachineStartError::Spawn)
    }

    // The replacement is `unsafe`, which this room may not use. Its condition holds: the handle
    // always owns its descriptor.
    #[allow(deprecated, reason = "see above")]
    fn watched(pid: u32, handle: Pidfd, watched: DeathSources, scope: &Scope) -> io::Result<Self> {
        let handle = Arc::new(AsyncFd::new(handle)?);
        let (tx, state) = watch::channel(MachineState::Alive);
        let log = watched.log.clone();
        scope.start("machine-watch", watch_death(handle.clone(), tx, watched));
        Ok(Self { pid, handle, state, log })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn watch(&self) -> watch::Receiver<MachineState> {
        self.state.clone()
    }

    /// Returns the end of the process's log.
    pub fn log_tail(&self) -> String {
        tail(&self.log, LOG_TAIL_BYTES)
    }

    /// Kills the process and waits until it is gone.
    pub async fn kill(&self) {
        let mut state = self.state.clone();
        if let Err(error) = self.handle.get_ref().kill() {
            tracing::error!(pid = self.pid, %error, "could not kill a machine process");
        }
        let dead = state.wait_for(|state| *state != MachineState::Alive);
        if tokio::time::timeout(KILL_DEADLINE, dead).await.is_err() {
            tracing::error!(pid = self.pid, "a machine process survived SIGKILL");
        }
    }
}

/// Tells whether a process's arguments name a machine's folder. The process can change its
/// arguments.
fn names_folder(pid: u32, run_dir: &Path) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let name = run_dir.display().to_string();
    words.split(|byte| *byte == 0).any(|word| word == name.as_bytes())
}

fn start(launch: &QemuLaunch<'_>, log: &Path, entrances: &[File]) -> Result<JailedProcess, MachineStartError> {
    let QemuLaunch { runtime, spec, .. } = launch;
    let jailed = launch.jail == Jail::Full;
    let program = runtime.bundle.program(if jailed { Path::new(RUNTIME) } else { runtime.bundle.folder() });
    let argv = strings([&program.path].into_iter().chain(&program.arguments).chain(&launch.arguments))?;
    let env = strings(&program.environment)?;
    let null = File::options().read(true).write(true).open("/dev/null").map_err(MachineStartError::Spawn)?;
    let output = open_log(log).map_err(MachineStartError::Spawn)?;
    let monitor = UnixListener::bind(monitor_socket(&spec.run_dir)).map_err(MachineStartError::Spawn)?;
    let files = InheritedFiles::open(spec, launch.netns)?;
    let user = jailed.then(|| JailUser::take(launch.users)).transpose().map_err(failed("reserve a user id"))?;
    let state = launch.state.as_ref().map_or(null.as_fd(), AsFd::as_fd);
    let lock = user.as_ref().map_or(null.as_fd(), JailUser::lock);
    let mut descriptors: Vec<BorrowedFd<'_>> = vec![null.as_fd(), null.as_fd(), output.as_fd()];
    for (fd, number) in [(monitor.as_fd(), MONITOR_FD), (state, STATE_FD), (files.tap.as_fd(), TAP_FD), (lock, USER_FD)]
    {
        assert_eq!(descriptors.len(), number as usize, "the arguments name these numbers");
        descriptors.push(fd);
    }
    assert_eq!((descriptors.len() as i32, CONSOLE_FD + 1), (CONSOLE_FD, DISK_FD), "the arguments name these numbers");
    descriptors.push(files.console.as_fd());
    descriptors.push(files.disk.as_fd());
    let root = runtime.root.as_ref().filter(|_| jailed);
    let cell = root.zip(user.as_ref()).map(|(root, user)| Confinement {
        root,
        mounts: &launch.mounts,
        user: user.number,
        opens: launch.opens,
    });
    assert_eq!(cell.is_some(), jailed, "a jail is whole or asked not to be");
    let path = CString::new(program.path.as_str()).map_err(|error| MachineStartError::Spawn(error.into()))?;
    let started = jail::launch(&jail::JailLaunch {
        program: &path,
        argv: &argv,
        env: &env,
        descriptors: &descriptors,
        netns: launch.netns.as_fd(),
        groups: &entrances.iter().map(AsFd::as_fd).collect::<Vec<_>>(),
        file_bytes_max: file_bytes_max(spec, &files),
        cell,
    });
    started.map_err(|error| refused(error, spec))
}

/// Opens an empty log for the process's output. The process appends, so the host can truncate the
/// file meanwhile.
fn open_log(log: &Path) -> io::Result<File> {
    File::create(log)?;
    File::options().append(true).open(log)
}

/// The longest file that a machine may write. One limit covers all its files.
fn file_bytes_max(spec: &MachineSpec, files: &InheritedFiles) -> u64 {
    FILE_BYTES_MAX.max(spec.memory.get()).max(files.disk_bytes)
}

fn strings<'a>(words: impl IntoIterator<Item = &'a String>) -> Result<Vec<CString>, MachineStartError> {
    let made = words.into_iter().map(|word| CString::new(word.as_str())).collect::<Result<_, _>>();
    made.map_err(|error| MachineStartError::Spawn(error.into()))
}

fn refused(error: JailError, spec: &MachineSpec) -> MachineStartError {
    match error {
        JailError::Clone(cause) => MachineStartError::Jail { step: "create a process".to_owned(), cause },
        JailError::Child { step: jail::JailStep::Program | jail::JailStep::Session, cause } => {
            MachineStartError::Spawn(cause)
        }
        JailError::Child { step: jail::JailStep::Network, cause } => {
            MachineStartError::Network { netns: spec.network.netns.clone(), cause }
        }
        JailError::Child { step, cause } => MachineStartError::Jail { step: format!("{step:?}").to_lowercase(), cause },
    }
}

fn limits(spec: &MachineSpec) -> CgroupLimits {
    let MachineLimits { cpu_percent, memory, pids } = spec.limits;
    CgroupLimits { cpu_percent, memory_bytes: memory.get(), pids }
}

/// Makes a machine's group. The parent group has the limit of all machines. It is removed with its
/// last machine, so each machine sets that limit again.
fn limit(group: &Cgroup, limits: &CgroupLimits, memory_of_all: Option<u64>) -> Result<(), CgroupError> {
    group.limit(limits)?;
    match (group.above(), memory_of_all) {
        (Some(above), Some(bytes)) => above.limit_memory(bytes).inspect_err(|_| {
            group.remove();
        }),
        _ => Ok(()),
    }
}

fn enter(group: &Cgroup, limits: &CgroupLimits, memory_of_all: Option<u64>, pid: u32) -> Result<(), CgroupError> {
    let entered = limit(group, limits, memory_of_all).and_then(|()| group.add_process(pid));
    if entered.is_err() {
        // A dead process is no longer watched, so its group would be left behind.
        group.remove();
    }
    entered
}

/// Without a jail, limits are optional.
fn unless<T>(jail: Jail, step: &str, outcome: Result<T, CgroupError>) -> Result<Option<T>, MachineStartError> {
    match (outcome, jail) {
        (Ok(value), _) => Ok(Some(value)),
        (Err(error), Jail::Full) => Err(failed(step)(error.into_io())),
        (Err(_), Jail::None) => Ok(None),
    }
}

/// Sources for the reason of a death.
struct DeathSources {
    log: PathBuf,
    console: PathBuf,
    group: Option<Cgroup>,
    memory: pandastack_model::ByteSize,
}

async fn watch_death(handle: Arc<AsyncFd<Pidfd>>, tx: watch::Sender<MachineState>, watched: DeathSources) {
    let reason = match handle.readable().await {
        // A process of an earlier host process is not our child, so its exit status is unknown.
        Ok(_) => watched.explain(handle.get_ref().reap().ok().flatten()),
        Err(error) => format!("could not wait for the process: {error}"),
    };
    if let Some(group) = &watched.group {
        group.remove();
    }
    let _ = tx.send(MachineState::Dead { reason });
}

impl DeathSources {
    fn explain(&self, exit: Option<ChildExit>) -> String {
        let killed_for_memory = self.group.as_ref().filter(|group| group.memory_kills() > 0);
        if killed_for_memory.is_some_and(|group| !group.reached_memory_limit()) {
            return "killed: the machines of the host together used more memory than allowed".to_owned();
        }
        if killed_for_memory.is_some() {
            return format!("killed: the machine used more than its {} MiB", self.memory.as_mib());
        }
        // A kernel panic restarts the machine, which looks like a normal exit from outside.
        if matches!(exit, Some(ChildExit::Status(0)) | None)
            && let Some(last_words) = panic_in(&tail(&self.console, CONSOLE_TAIL_BYTES))
        {
            return format!("the guest's kernel panicked: {last_words}");
        }
        let how = match exit {
            Some(ChildExit::Signal(9)) => "killed by signal 9".to_owned(),
            Some(ChildExit::Signal(signal)) => format!("ended by signal {signal}"),
            Some(ChildExit::Status(0)) => "the guest powered off".to_owned(),
            Some(ChildExit::Status(status)) => format!("exited with status {status}"),
            None => "ended with an unknown status".to_owned(),
        };
        match tail(&self.log, LOG_TAIL_BYTES).lines().last() {
            Some(last) => format!("{how}: {last}"),
            None => how,
        }
    }
}

/// Finds the last kernel panic message: out of memory, no init, a defect. The guest controls this
/// text, so it is only for the sandbox's owner.
fn panic_in(console: &str) -> Option<String> {
    const MARK: &str = "Kernel panic - not syncing: ";
    let line = console.lines().rev().find_map(|line| Some(line.split_once(MARK)?.1))?;
    Some(line.chars().filter(|c| !c.is_control()).take(200).collect())
}

fn tail(log: &Path, bytes_max: u64) -> String {
    let mut bytes = Vec::new();
    let read = File::open(log).and_then(|mut file| {
        let from = file.metadata()?.len().saturating_sub(bytes_max);
        file.seek(SeekFrom::Start(from))?;
        file.take(bytes_max).read_to_end(&mut bytes)
    });
    if let Err(error) = read {
        tracing::debug!(%error, log = %log.display(), "could not read the end of a log");
    }
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn a_log_that_was_cut_goes_on_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("machine.log");
        std::fs::write(&log, "of an earlier machine").unwrap();
        let mut output = open_log(&log).unwrap();
        output.write_all(&[b'x'; 1000]).unwrap();
        File::options().write(true).open(&log).unwrap().set_len(0).unwrap();
        output.write_all(b"after the cut").unwrap();
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "after the cut");
    }

    /// A machine is identified by its control group. The process's arguments prove nothing.
    #[tokio::test]
    async fn a_process_that_only_names_a_machines_folder_is_not_adopted() {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec_of(&folder.path().join(pandastack_model::MachineId::random().to_string()));
        let mut stranger = Command::new("sh")
            .args(["-c", "echo ready; read word", "-name"])
            .arg(&spec.run_dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // After its output it has set its own arguments.
        stranger.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
        let (pid, scope) = (stranger.id(), Scope::new());
        let adopted = QemuProcess::adopt(&spec, pid, Jail::Full, &scope);
        assert!(matches!(adopted, Err(MachineStartError::Stranger { .. })), "its words were believed");
        let group = CgroupHierarchy::find().unwrap().group(&group_of(&spec.run_dir));
        enter(&group, &limits(&spec), None, pid).unwrap();
        let adopted = QemuProcess::adopt(&spec, pid, Jail::Full, &scope).expect("it is in the machine's group");
        adopted.kill().await;
        // The watcher has reaped it already, because it is our child.
        let _ = stranger.wait();
        assert!(group.remove());
    }

    fn spec_of(run_dir: &Path) -> MachineSpec {
        let memory = pandastack_model::ByteSize::mib(64);
        MachineSpec {
            id: pandastack_model::MachineId::random(),
            memory,
            cpus: 1,
            disk: run_dir.join("disk"),
            run_dir: run_dir.to_owned(),
            network: pandastack_vmm::NetworkAttachment {
                netns: "/proc/self/ns/net".into(),
                tap: "none".to_owned(),
                mac: "02:00:00:00:00:01".to_owned(),
                guest_address: std::net::Ipv4Addr::LOCALHOST,
                guest_port: 1,
            },
            runtime: None,
            limits: MachineLimits::of(memory, 1),
        }
    }

    #[test]
    fn a_kernels_last_words_are_found() {
        let console = "[ 1.0] ok\n[ 9.1] Kernel panic - not syncing: Out of memory: compulsory panic_on_oom is \
            enabled\r\n[ 9.2] CPU: 0";
        assert_eq!(panic_in(console).unwrap(), "Out of memory: compulsory panic_on_oom is enabled");
        assert_eq!(panic_in("login:"), None);
    }
}
