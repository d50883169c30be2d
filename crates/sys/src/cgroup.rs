//! Control groups that limit CPU time, memory and the number of threads. Works with one tree for
//! all controllers (version 2) and with one tree per controller (version 1).
//!
//! Version 1 groups are made below our own group, so outer limits still hold. Version 2 allows no
//! group below one with processes, so groups are made at the top of the visible tree.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// The controllers that a group needs.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];

/// Length of a CPU accounting period, in microseconds.
const PERIOD_US: u64 = 100_000;

/// Attempts to make a group while other processes remove its parent.
const ATTEMPTS: usize = 8;

/// Limits for all processes of a group together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CgroupLimits {
    /// Hundredths of a CPU.
    pub cpu_percent: u32,
    pub memory_bytes: u64,
    /// Threads and processes.
    pub pids: u32,
}

/// Groups cannot be made on this host.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    #[error("this host lacks cgroup support for {0}")]
    Missing(String),
    #[error("{action} {path}")]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
}

impl CgroupError {
    /// Converts to an I/O error, for callers that have only that type.
    pub fn into_io(self) -> io::Error {
        let kind = match &self {
            CgroupError::Missing(_) => io::ErrorKind::Unsupported,
            CgroupError::Io { cause, .. } => cause.kind(),
        };
        let text = match &self {
            CgroupError::Missing(_) => self.to_string(),
            CgroupError::Io { cause, .. } => format!("{self}: {cause}"),
        };
        io::Error::new(kind, text)
    }
}

/// The control group trees of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CgroupHierarchy {
    /// One tree. The path is the folder below which groups are made.
    Unified(PathBuf),
    /// One tree per controller, in the order of [`CONTROLLERS`].
    Separate([PathBuf; 3]),
}

/// One group, in all trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    hierarchy: CgroupHierarchy,
    name: String,
}

impl CgroupHierarchy {
    /// Finds the trees of this host that this process may use.
    pub fn find() -> Result<Self, CgroupError> {
        let read = |path: &str| {
            fs::read_to_string(path).map_err(|cause| CgroupError::Io { action: "read", path: path.into(), cause })
        };
        let mounts = read("/proc/self/mountinfo")?;
        if let Some(top) = unified_mount(&mounts) {
            let offered = fs::read_to_string(top.join("cgroup.controllers")).unwrap_or_default();
            if CONTROLLERS.iter().all(|name| offered.split_whitespace().any(|word| word == *name)) {
                return Ok(CgroupHierarchy::Unified(top));
            }
        }
        let own = read("/proc/self/cgroup")?;
        let found = CONTROLLERS.map(|name| separate_folder(&mounts, &own, name));
        let missing: Vec<&str> =
            CONTROLLERS.iter().zip(&found).filter(|(_, folder)| folder.is_none()).map(|(name, _)| *name).collect();
        match found {
            [Some(cpu), Some(memory), Some(pids)] => Ok(CgroupHierarchy::Separate([cpu, memory, pids])),
            _ => Err(CgroupError::Missing(missing.join(", "))),
        }
    }

    /// Names a group. The group need not exist.
    pub fn group(&self, name: &str) -> Cgroup {
        Cgroup { hierarchy: self.clone(), name: name.to_owned() }
    }

    /// Lists the groups right below a group, in any of the trees.
    pub fn names(&self, below: &str) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for top in self.tops() {
            let entries = fs::read_dir(top.join(below)).into_iter().flatten().flatten();
            let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            names.extend(folders.filter_map(|entry| entry.file_name().into_string().ok()));
        }
        names.sort();
        names.dedup();
        names
    }

    fn tops(&self) -> &[PathBuf] {
        match self {
            CgroupHierarchy::Unified(top) => std::slice::from_ref(top),
            CgroupHierarchy::Separate(tops) => tops,
        }
    }
}

impl Cgroup {
    /// The group of a process, if it has this name. The process that made the group may have run
    /// elsewhere in the trees.
    pub fn of(pid: u32, name: &str) -> Option<Cgroup> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let theirs = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let hierarchy = match CgroupHierarchy::find().ok()? {
            CgroupHierarchy::Unified(top) => {
                theirs.lines().any(|line| line == format!("0::/{name}")).then_some(CgroupHierarchy::Unified(top))
            }
            CgroupHierarchy::Separate(_) => {
                let top = |controller| {
                    let folder = separate_folder(&mounts, &theirs, controller)?;
                    folder
                        .ends_with(name)
                        .then(|| folder.ancestors().nth(name.split('/').count()).map(PathBuf::from))?
                };
                let [cpu, memory, pids] = CONTROLLERS.map(top);
                Some(CgroupHierarchy::Separate([cpu?, memory?, pids?]))
            }
        };
        hierarchy.map(|hierarchy| hierarchy.group(name))
    }

    /// Sets the memory limit for all processes in the group and below it. The group must exist.
    pub fn limit_memory(&self, bytes: u64) -> Result<(), CgroupError> {
        let file = match &self.hierarchy {
            CgroupHierarchy::Unified(top) => top.join(&self.name).join("memory.max"),
            CgroupHierarchy::Separate([_, memory, _]) => memory.join(&self.name).join("memory.limit_in_bytes"),
        };
        write(&file, &bytes.to_string())
    }

    /// The parent group, or `None` for a group at the top.
    pub fn above(&self) -> Option<Cgroup> {
        self.name.rsplit_once('/').map(|(above, _)| self.hierarchy.group(above))
    }

    /// Makes the group, if it does not exist, and sets its limits.
    pub fn limit(&self, limits: &CgroupLimits) -> Result<(), CgroupError> {
        let limited = match &self.hierarchy {
            CgroupHierarchy::Unified(top) => {
                make_unified(top, &self.name).and_then(|folder| limit_unified(&folder, limits))
            }
            CgroupHierarchy::Separate(tops) => {
                let make = |top: &PathBuf| make_below(top, &self.name, |_| Ok(())).map(drop);
                tops.iter().try_for_each(make).and_then(|()| limit_separate(tops, &self.name, limits))
            }
        };
        limited.inspect_err(|_| {
            self.remove();
        })
    }

    /// Opens the files through which a process enters the group. The process writes `0` to each.
    pub fn entrances(&self) -> Result<Vec<File>, CgroupError> {
        let open = |top: &PathBuf| {
            let path = top.join(&self.name).join("cgroup.procs");
            OpenOptions::new().write(true).open(&path).map_err(|cause| CgroupError::Io {
                action: "open",
                path: path.clone(),
                cause,
            })
        };
        self.hierarchy.tops().iter().map(open).collect()
    }

    /// Moves a process with all its threads into the group. The kernel waits for every CPU, which
    /// may take milliseconds.
    pub fn add_process(&self, pid: u32) -> Result<(), CgroupError> {
        let enter = |top: &PathBuf| write(&top.join(&self.name).join("cgroup.procs"), &pid.to_string());
        self.hierarchy.tops().iter().try_for_each(enter)
    }

    /// Counts the processes that were killed because the group had no memory left.
    pub fn memory_kills(&self) -> u64 {
        let file = match &self.hierarchy {
            CgroupHierarchy::Unified(top) => top.join(&self.name).join("memory.events"),
            CgroupHierarchy::Separate([_, memory, _]) => memory.join(&self.name).join("memory.oom_control"),
        };
        counter(&fs::read_to_string(file).unwrap_or_default(), "oom_kill")
    }

    /// Tells whether the group itself has ever reached its memory limit. If not, its processes were
    /// killed because of a limit above it.
    pub fn reached_memory_limit(&self) -> bool {
        match &self.hierarchy {
            CgroupHierarchy::Unified(top) => {
                let events = fs::read_to_string(top.join(&self.name).join("memory.events")).unwrap_or_default();
                counter(&events, "max") > 0
            }
            CgroupHierarchy::Separate([_, memory, _]) => {
                let failures = fs::read_to_string(memory.join(&self.name).join("memory.failcnt")).unwrap_or_default();
                failures.trim() != "0"
            }
        }
    }

    /// Removes the group, and parent groups that are left empty. Returns `false` if it is still in
    /// use.
    pub fn remove(&self) -> bool {
        let mut gone = true;
        for top in self.hierarchy.tops() {
            let mut path = Path::new(&self.name);
            match fs::remove_dir(top.join(path)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => gone = false,
            }
            while let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                if fs::remove_dir(top.join(parent)).is_err() {
                    break;
                }
                path = parent;
            }
        }
        gone
    }
}

/// Names the group directly below `below` that a process is in. Only root can move a process to
/// another group, so the process cannot falsify this. `None` if the process has ended.
pub fn member_of(pid: u32, below: &str) -> Option<String> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // A program name may contain anything. The state follows the last parenthesis.
    let ended = stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with(['Z', 'X']));
    if ended { None } else { member(&groups, below) }
}

fn member(groups: &str, below: &str) -> Option<String> {
    let mark = format!("/{below}/");
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let names = paths.filter_map(|path| Some(path.split_once(&mark)?.1.split('/').next()?.to_owned()));
    names.into_iter().find(|name| !name.is_empty())
}

/// Makes each folder of a name in turn, and prepares it before the next. Other processes may remove
/// an empty folder at any time, so this retries.
fn make_below(
    top: &Path,
    name: &str,
    ready: impl Fn(&Path) -> Result<(), CgroupError>,
) -> Result<PathBuf, CgroupError> {
    let mut failed = None;
    for _ in 0..ATTEMPTS {
        let mut folder = top.to_owned();
        let made = name.split('/').try_for_each(|part| {
            ready(&folder)?;
            folder.push(part);
            match fs::create_dir(&folder) {
                Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
                    Err(CgroupError::Io { action: "make", path: folder.clone(), cause })
                }
                _ => Ok(()),
            }
        });
        match made {
            Ok(()) => return Ok(folder),
            Err(CgroupError::Io { cause, action, path }) if cause.kind() == io::ErrorKind::NotFound => {
                failed = Some(CgroupError::Io { action, path, cause });
            }
            Err(error) => return Err(error),
        }
    }
    Err(failed.unwrap_or_else(|| CgroupError::Missing(name.to_owned())))
}

fn make_unified(top: &Path, name: &str) -> Result<PathBuf, CgroupError> {
    make_below(top, name, |folder| {
        let file = folder.join("cgroup.subtree_control");
        let present = fs::read_to_string(&file).unwrap_or_default();
        let lacks = |name: &&str| !present.split_whitespace().any(|word| word == *name);
        match CONTROLLERS.iter().any(lacks) {
            true => write(&file, "+cpu +memory +pids"),
            false => Ok(()),
        }
    })
}

fn limit_unified(folder: &Path, limits: &CgroupLimits) -> Result<(), CgroupError> {
    let quota = quota_us(limits);
    write(&folder.join("cpu.max"), &format!("{quota} {PERIOD_US}"))?;
    write(&folder.join("memory.max"), &limits.memory_bytes.to_string())?;
    write(&folder.join("pids.max"), &limits.pids.to_string())?;
    // Optional, because not every kernel has these files. Unused CPU time may be used later, and as
    // much memory again may be swapped out.
    let _ = write(&folder.join("cpu.max.burst"), &quota.to_string());
    let _ = write(&folder.join("memory.swap.max"), &limits.memory_bytes.to_string());
    Ok(())
}

fn limit_separate(tops: &[PathBuf; 3], name: &str, limits: &CgroupLimits) -> Result<(), CgroupError> {
    let [cpu, memory, pids] = tops.each_ref().map(|top| top.join(name));
    let quota = quota_us(limits);
    write(&cpu.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
    write(&cpu.join("cpu.cfs_quota_us"), &quota.to_string())?;
    write(&memory.join("memory.limit_in_bytes"), &limits.memory_bytes.to_string())?;
    write(&pids.join("pids.max"), &limits.pids.to_string())?;
    // Optional, as in the unified tree. Here the second file counts memory and swap together.
    let _ = write(&cpu.join("cpu.cfs_burst_us"), &quota.to_string());
    let _ = write(&memory.join("memory.memsw.limit_in_bytes"), &(2 * limits.memory_bytes).to_string());
    Ok(())
}

fn quota_us(limits: &CgroupLimits) -> u64 {
    u64::from(limits.cpu_percent) * PERIOD_US / 100
}

fn write(path: &Path, text: &str) -> Result<(), CgroupError> {
    // Does not create the file: a missing file means a missing controller.
    let written = OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|cause| CgroupError::Io { action: "write", path: path.to_owned(), cause })
}

/// Reads the value of one `name value` line.
fn counter(text: &str, name: &str) -> u64 {
    let value = text.lines().filter_map(|line| line.split_once(' ')).find(|(word, _)| *word == name);
    value.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

/// Splits one mountinfo line: root in the file system, mount point, type, file system options.
fn mount_parts(line: &str) -> Option<(&str, &str, &str, &str)> {
    let (place, system) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, point) = (place.next()?, place.next()?);
    let mut system = system.split(' ');
    let (kind, _source, options) = (system.next()?, system.next()?, system.next()?);
    Some((root, point, kind, options))
}

fn unified_mount(mounts: &str) -> Option<PathBuf> {
    mounts.lines().filter_map(mount_parts).find(|(.., kind, _)| *kind == "cgroup2").map(|(_, point, ..)| point.into())
}

/// The folder of our own group in the tree of a controller.
fn separate_folder(mounts: &str, own: &str, controller: &str) -> Option<PathBuf> {
    let names = |list: &str| list.split(',').any(|word| word == controller);
    let (root, point, ..) =
        mounts.lines().filter_map(mount_parts).find(|(_, _, kind, options)| *kind == "cgroup" && names(options))?;
    let ours = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        names(controllers).then_some(path)
    })?;
    // If only a part of the tree is mounted, paths are relative to the top of the whole tree.
    let inside = Path::new(ours).strip_prefix(root).unwrap_or(Path::new(""));
    Some(Path::new(point).join(inside))
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read,
        process::{Command, Stdio},
    };

    use super::*;
    use crate::oom;

    const LIMITS: CgroupLimits = CgroupLimits { cpu_percent: 150, memory_bytes: 64 << 20, pids: 7 };

    const MOUNTS: &str = "\
30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
31 25 0:27 /box /sys/fs/cgroup/memory rw shared:10 - cgroup cgroup rw,memory
32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";

    #[test]
    fn folders_are_found_whatever_is_mounted_together() {
        let own = "3:cpu,cpuacct:/system.slice/a\n2:memory:/box/inner\n0::/init.scope";
        let folder = |name| separate_folder(MOUNTS, own, name);
        assert_eq!(folder("cpu").unwrap(), Path::new("/sys/fs/cgroup/cpu,cpuacct/system.slice/a"));
        assert_eq!(folder("memory").unwrap(), Path::new("/sys/fs/cgroup/memory/inner"));
        assert_eq!(folder("pids"), None);
        assert_eq!(unified_mount(MOUNTS).unwrap(), Path::new("/sys/fs/cgroup/unified"));
    }

    #[test]
    fn a_process_is_a_member_of_the_group_that_it_is_in() {
        let separate = "4:memory:/box/pandastack/0a/mch_1\n2:cpu:/\n0::/init.scope";
        assert_eq!(member(separate, "pandastack/0a").unwrap(), "mch_1");
        assert_eq!(member("0::/pandastack/0a/mch_2", "pandastack/0a").unwrap(), "mch_2");
        for other in
            ["0::/pandastack/0a", "0::/pandastack/0a/", "0::/pandastack/0ab/mch_1", "0::/xpandastack/0a/mch_1", ""]
        {
            assert_eq!(member(other, "pandastack/0a"), None, "{other}");
        }
    }

    /// A program that dirties memory. It prints a line when done, and waits for input before it
    /// ends.
    fn dirty(mib: usize) -> std::process::Child {
        let program = format!(
            "import sys; sys.stdin.readline(); b = bytearray({mib} << 20); print('dirty', flush=True); \
                sys.stdin.readline()"
        );
        let mut command = Command::new("python3");
        command.args(["-c", &program]).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    fn go(child: &mut std::process::Child) {
        // A killed process cannot read this.
        let _ = child.stdin.as_mut().unwrap().write_all(b"go\n");
    }

    fn says_dirty(child: &mut std::process::Child) -> bool {
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).is_ok()
    }

    /// A group represents a small host. Its server is the largest process. Each machine is within
    /// its own limit, but together they have more memory than the host.
    #[test]
    fn a_server_survives_machines_that_dirty_all_memory_at_once() {
        const HOST_MIB: u64 = 320;
        const SERVER_MIB: usize = 96;
        const MACHINES_MIB: u64 = 160;
        let tree = CgroupHierarchy::find().unwrap();
        let host = format!("pandastack-test-host-{}", std::process::id());
        let limits = |mib: u64| CgroupLimits { cpu_percent: 100, memory_bytes: mib << 20, pids: 16 };
        let own = tree.group(&format!("{host}/server"));
        own.limit(&limits(HOST_MIB)).unwrap();
        own.above().unwrap().limit_memory(HOST_MIB << 20).unwrap();
        let mut server = dirty(SERVER_MIB);
        own.add_process(server.id()).unwrap();
        // May be refused even for root. The limit must be enough then.
        let _ = oom::set_score(server.id(), oom::SERVER_SCORE);
        go(&mut server);
        assert!(says_dirty(&mut server));
        let mut machines = Vec::new();
        for number in 0..6 {
            let group = tree.group(&format!("{host}/machines/{number}"));
            group.limit(&limits(80)).unwrap();
            group.above().unwrap().limit_memory(MACHINES_MIB << 20).unwrap();
            let machine = dirty(60);
            group.add_process(machine.id()).unwrap();
            oom::set_score(machine.id(), oom::MACHINE_SCORE).unwrap();
            machines.push((group, machine));
        }
        machines.iter_mut().for_each(|(_, machine)| go(machine));
        // Each process has got its memory or was killed. One that got it may have been killed later
        // to make room for the next.
        for (_, machine) in &mut machines {
            says_dirty(machine);
        }
        let killed: Vec<&Cgroup> =
            machines.iter().map(|(group, _)| group).filter(|group| group.memory_kills() > 0).collect();
        let own_fault = killed.iter().filter(|group| group.reached_memory_limit()).count();
        let (kills, alive_server) = (killed.len(), server.try_wait().unwrap().is_none());
        for child in machines.iter_mut().map(|(_, machine)| machine).chain([&mut server]) {
            let _ = child.kill();
            child.wait().unwrap();
        }
        assert!(machines.iter().all(|(group, _)| group.remove()) && own.remove(), "the groups are empty");
        assert!(alive_server, "the server was killed");
        assert!(kills >= 1, "all machines together do not fit, and none was killed");
        assert_eq!(own_fault, 0, "no machine used more than its own");
    }

    #[test]
    fn kills_are_counted_by_their_own_line() {
        assert_eq!(counter("low 3\noom 5\noom_kill 2\noom_group_kill 9\n", "oom_kill"), 2);
        assert_eq!(counter("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", "oom_kill"), 1);
        assert_eq!(counter("", "oom_kill"), 0);
    }

    /// A folder represents the unified tree, because a host has only one kind of tree.
    #[test]
    fn the_unified_tree_is_prepared_level_by_level() {
        let top = std::env::temp_dir().join(format!("pandastack-cgroup-{}", std::process::id()));
        let folder = top.join("a/b");
        fs::create_dir_all(&folder).unwrap();
        for parent in [&top, &top.join("a")] {
            fs::write(parent.join("cgroup.subtree_control"), "").unwrap();
        }
        let files = ["cpu.max", "memory.max", "pids.max", "memory.events"];
        files.iter().for_each(|name| fs::write(folder.join(name), "").unwrap());
        let tree = CgroupHierarchy::Unified(top.clone());
        let group = tree.group("a/b");
        group.limit(&LIMITS).unwrap();
        let read = |name: &str| fs::read_to_string(top.join(name)).unwrap();
        assert_eq!(read("cgroup.subtree_control"), "+cpu +memory +pids");
        assert_eq!(read("a/cgroup.subtree_control"), "+cpu +memory +pids");
        assert_eq!(read("a/b/cpu.max"), "150000 100000");
        assert_eq!((read("a/b/memory.max").as_str(), read("a/b/pids.max").as_str()), ("67108864", "7"));
        assert_eq!(tree.names("a"), ["b"]);
        fs::write(folder.join("memory.events"), "oom_kill 3").unwrap();
        assert_eq!(group.memory_kills(), 3);
        fs::remove_file(folder.join("pids.max")).unwrap();
        assert!(matches!(group.limit(&LIMITS), Err(CgroupError::Io { .. })), "a missing controller is told");
        fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn a_process_that_takes_too_much_is_killed_and_counted() {
        let tree = CgroupHierarchy::find().unwrap();
        let name = format!("pandastack-test-{}/one", std::process::id());
        let group = tree.group(&name);
        group.limit(&LIMITS).unwrap();
        let enter = |top: &PathBuf| format!("echo 0 > {}; ", top.join(&name).join("cgroup.procs").display());
        let enter: String = tree.tops().iter().map(enter).collect();
        let hungry = format!("{enter} exec python3 -c 'b = bytearray(200 << 20)'");
        assert_eq!(group.memory_kills(), 0);
        let status = Command::new("sh").args(["-c", &hungry]).status().unwrap();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(status.signal(), Some(9));
        assert_eq!(group.memory_kills(), 1);
        let modest = format!("{enter} exec python3 -c 'import os; b = bytearray(8 << 20); print(os.getpid())'");
        assert!(Command::new("sh").args(["-c", &modest]).status().unwrap().success());
        assert_eq!(tree.names(name.split_once('/').unwrap().0), ["one"]);
        assert!(group.remove());
        assert!(tree.names(name.split_once('/').unwrap().0).is_empty());
        assert!(group.remove(), "removing twice is fine");
    }
}
