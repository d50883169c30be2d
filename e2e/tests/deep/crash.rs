//! The built server is killed with SIGKILL during every operation and started again, on real
//! machines: running sandboxes keep their processes, sleeping ones stay asleep, partial operations
//! are finished or undone, and nothing leaks.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use pandastack_client::{
    Client, ClientError, Config,
    wire::{CreateSandbox, CreateVolume, ExecRequest, ForkRequest, VolumeAttachment},
};
use pandastack_e2e::PATIENCE;
use pandastack_host::Ledger;
use pandastack_kit::random_bytes;
use pandastack_model::{LayerId, SandboxState};
use pandastack_testbed::{DataFolder, InstanceLeftovers, TestServer, run_root_of, stretched, wait_for};

/// Kills during each operation, unless `PANDASTACK_KILLS` is set.
const KILLS: u32 = 20;

/// For each kill that counts, so many may come too early or too late.
const MISSES_MAX: u32 = 4;

/// Maximum difference between a guest's clock and its host's.
const CLOCK_SKEW_MAX: Duration = Duration::from_millis(500);

/// The volume of the sandbox that always runs, and the volume that the tested sandboxes use in
/// turn.
const VOLUMES: [&str; 2] = ["witness", "subject"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Create,
    Fork,
    Hibernate,
    Wake,
    Delete,
}

const ALL: [Operation; 5] =
    [Operation::Create, Operation::Fork, Operation::Hibernate, Operation::Wake, Operation::Delete];

/// A sandbox in which a process counts. The count is only in the process. Each number is a line of
/// a file, and is reported in another file after that line was flushed.
struct Witness {
    id: String,
    pid: u32,
    log: String,
    told: u64,
}

/// Counts forever from the last line on. A restarted process would be noticed by its other process
/// id.
const COUNTER: &str = r#"
import os, sys, time
log = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
number = os.pread(log, os.fstat(log).st_size, 0).count(b"\n")
while True:
    number += 1
    os.write(log, b"%d\n" % number)
    os.fsync(log)
    with open("/dev/shm/next", "w") as told:
        told.write(str(number))
    os.rename("/dev/shm/next", "/dev/shm/told")
    time.sleep(0.05)
"#;

impl Witness {
    /// Makes a sandbox, with a volume or without one.
    async fn make(client: &Client, volume: Option<&str>) -> Self {
        let id = client.create(&with_volume(volume)).await.unwrap().id;
        let log = if volume.is_some() { "/data/log" } else { "/srv/log" }.to_owned();
        let begin = format!("setsid python3 -c '{COUNTER}' {log} > /dev/null 2>&1 < /dev/null & echo $!");
        let pid = run(client, &id, &begin).await.trim().parse().unwrap();
        let mut witness = Self { id, pid, log, told: 0 };
        let first =
            async || client.exec(&witness.id, &line("cat /dev/shm/told")).await.ok()?.stdout.trim().parse().ok();
        witness.told = wait_for("the first count", PATIENCE, first).await;
        witness
    }

    /// Checks that the process runs and has continued its count, that all reported lines are on its
    /// disk without a gap, and that its clock is right. Wakes a sleeping sandbox.
    async fn check(&mut self, client: &Client) {
        // Bypasses the guest's cache and reads the disk.
        let read = format!("dd if={} iflag=direct bs=64k status=none", self.log);
        let count = "awk '$1 != NR { print \"line\", NR, \"is\", $1; exit } END { print NR }'";
        let look = format!("date +%s%N && kill -0 {} && cat /dev/shm/told && echo && {read} | {count}", self.pid);
        let before = now();
        let seen = run(client, &self.id, &look).await;
        let after = now();
        let numbers: Result<Vec<u64>, _> = seen.split_whitespace().map(str::parse).collect();
        let Ok([clock, told, lines]) = numbers.as_deref() else { panic!("{} has a gap: {seen}", self.log) };
        let (clock, skew) = (Duration::from_nanos(*clock), stretched(CLOCK_SKEW_MAX));
        assert!(clock + skew > before, "{:?} behind", before.saturating_sub(clock));
        assert!(clock < after + skew, "{:?} ahead", clock.saturating_sub(after));
        assert!(*told >= self.told, "the counter went back from {} to {told}", self.told);
        assert!(lines >= told, "{} has {lines} lines of {told}", self.log);
        let further = async || {
            let now: u64 = run(client, &self.id, "cat /dev/shm/told").await.trim().parse().ok()?;
            (now > *told).then_some(now)
        };
        self.told = wait_for("the counter goes on", PATIENCE, further).await;
    }
}

/// The sandbox of an operation.
struct Subject {
    operation: Operation,
    witness: Option<Witness>,
    /// Layers in the ledger before the operation. A sandbox that has slept before runs on one of
    /// them.
    layers: Vec<LayerId>,
}

impl Subject {
    /// Makes the sandbox for an operation, or uses the one that survived the last one.
    async fn make(data: &Path, client: &Client, operation: Operation, kept: Option<Witness>) -> Self {
        let volume = match operation {
            Operation::Create => return Self { operation, witness: None, layers: Vec::new() },
            Operation::Fork | Operation::Hibernate | Operation::Wake | Operation::Delete => Some(VOLUMES[1]),
        };
        let witness = match kept {
            Some(witness) => witness,
            None => Witness::make(client, volume).await,
        };
        if operation == Operation::Wake {
            client.hibernate(&witness.id).await.unwrap();
        }
        let ledger = Ledger::open(&data.join("ledger.db")).await.unwrap();
        let layers = ledger.layers().await.unwrap().into_iter().map(|row| row.id).collect();
        ledger.close().await;
        Self { operation, witness: Some(witness), layers }
    }

    fn id(&self) -> &str {
        self.witness.as_ref().map_or("", |witness| witness.id.as_str())
    }

    async fn run(&self, client: &Client) -> Result<(), ClientError> {
        let id = self.id();
        match self.operation {
            Operation::Create => client.create(&with_volume(Some(VOLUMES[1]))).await.map(drop),
            Operation::Fork => {
                let ask = ForkRequest { count: Some(2), ..ForkRequest::default() };
                client.fork_tree(id, &ask).await.map(drop)
            }
            Operation::Hibernate => client.hibernate(id).await.map(drop),
            Operation::Wake => client.wake(id).await.map(drop),
            Operation::Delete => client.delete(id).await,
        }
    }

    /// Whether the host had started the operation, by the ledger that the killed host left. Only
    /// entries of this sandbox count: other machines are made in advance at any time.
    async fn was_begun(&self, data: &Path, others: &[&str]) -> bool {
        // A copy, so that the next server finds the ledger as the last one left it.
        let copy = tempfile::tempdir().unwrap();
        for name in ["ledger.db", "ledger.db-wal"] {
            std::fs::copy(data.join(name), copy.path().join(name)).unwrap();
        }
        let ledger = Ledger::open(&copy.path().join("ledger.db")).await.unwrap();
        let sandboxes = ledger.sandboxes().await.unwrap();
        let subject = sandboxes.iter().find(|row| row.id.to_string() == self.id());
        let begun = match self.operation {
            Operation::Create => sandboxes.iter().any(|row| !others.contains(&row.id.to_string().as_str())),
            Operation::Fork | Operation::Hibernate => {
                let mut rows = ledger.layers().await.unwrap().into_iter();
                rows.any(|row| row.source.to_string() == self.id() && !self.layers.contains(&row.id))
            }
            Operation::Wake => {
                let record = &subject.expect("nobody removes it").record;
                let machines = ledger.machines().await.unwrap();
                record.state != SandboxState::Asleep || machines.iter().any(|row| row.layer == record.layer)
            }
            Operation::Delete => subject.is_none_or(|row| row.record.state == SandboxState::Stopping),
        };
        ledger.close().await;
        begun
    }

    /// Checks that the operation was finished or never started, and returns the remaining sandbox,
    /// running.
    async fn check(self, client: &Client) -> Option<Witness> {
        let Self { operation, witness, .. } = self;
        let mut witness = witness?;
        let status = match client.get(&witness.id).await {
            Ok(sandbox) => sandbox.status,
            Err(error) if error.status() == Some(404) => "gone".to_owned(),
            Err(error) => panic!("{operation:?}: {error}"),
        };
        let allowed: &[&str] = match operation {
            Operation::Create | Operation::Fork => &["running"],
            Operation::Hibernate | Operation::Wake => &["running", "hibernated"],
            Operation::Delete => &["running", "gone"],
        };
        assert!(allowed.contains(&status.as_str()), "{operation:?} left its sandbox {status}");
        if status == "gone" {
            return None;
        }
        witness.check(client).await;
        Some(witness)
    }
}

/// The time span in which an operation can be cut: from its start in the host to its end. Learned
/// from kills that came too early or too late.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: Duration,
    to: Duration,
}

impl Span {
    /// One of so many moments, randomized within its part of the span.
    fn moment(self, number: u32, count: u32) -> Duration {
        let [jitter] = random_bytes();
        (self.to.saturating_sub(self.from)) * (number * 256 + u32::from(jitter)) / (count * 256) + self.from
    }

    fn too_early(&mut self, delay: Duration) {
        self.from = delay.min(self.to * 3 / 4);
    }

    fn too_late(&mut self) {
        self.to = self.to * 9 / 10;
        self.from = self.from.min(self.to * 3 / 4);
    }
}

/// Counts of kills that hit an operation and kills that missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    cut: u32,
    early: u32,
    late: u32,
}

/// A server that is killed repeatedly, and the sandboxes that must survive.
struct Trial<'a> {
    data: &'a Path,
    server: TestServer,
    /// Number of standby machines: none with every second server.
    standby: u32,
    running: Witness,
    asleep: Witness,
    /// The sandbox of the last operation, if it exists and runs.
    kept: Option<Witness>,
}

impl<'a> Trial<'a> {
    async fn begin(data: &'a Path) -> Self {
        let server = start(data, 0);
        let client = client(&server);
        for name in VOLUMES {
            let ask = CreateVolume { name: name.to_owned(), size_mb: Some(64) };
            client.create_volume(&ask).await.unwrap();
        }
        let running = Witness::make(&client, Some(VOLUMES[0])).await;
        let asleep = Witness::make(&client, None).await;
        client.hibernate(&asleep.id).await.unwrap();
        Self { data, server, standby: 0, running, asleep, kept: None }
    }

    fn client(&self) -> Client {
        client(&self.server)
    }

    /// Removes all sandboxes but the permanent ones and the kept one, and waits until the expected
    /// machines are alive: standby machines are made automatically. No audit meanwhile finds a
    /// leak: an audit repairs what it finds, so the last one alone would prove little.
    async fn tidy(&self, context: &str) {
        let client = self.client();
        let kept = self.kept.iter().chain([&self.running, &self.asleep]).map(|witness| witness.id.as_str());
        remove_others(&client, &kept.collect::<Vec<_>>()).await;
        let wanted = 1 + self.standby as usize + usize::from(self.kept.is_some());
        let enough = async || {
            let audit = client.audit().await.unwrap();
            assert_eq!(audit.leaks, [""; 0], "{context}");
            (audit.machines == wanted).then_some(())
        };
        wait_for("the machines", PATIENCE, enough).await;
    }

    /// Checks that no audit of the server has found anything, including the first one. The start
    /// itself cleans up after a kill, before the first request.
    fn has_found_nothing(&self, context: &str) {
        let said = self.server.said();
        assert!(!said.contains("audit found leaks") && !said.contains("audit failed"), "{said}; {context}");
    }

    /// Runs an operation to its end, to measure its length.
    async fn whole(&mut self, operation: Operation) -> Span {
        let client = self.client();
        let subject = Subject::make(self.data, &client, operation, self.kept.take()).await;
        let began = Instant::now();
        subject.run(&client).await.unwrap();
        let span = Span { from: Duration::ZERO, to: began.elapsed() };
        self.kept = subject.check(&client).await;
        self.tidy(&format!("{operation:?} that was not cut off")).await;
        span
    }

    /// Kills the server a delay after a request, and starts another one.
    async fn cut(&mut self, operation: Operation, delay: Duration, span: &mut Span, count: &mut Count) {
        let client = self.client();
        let subject = Subject::make(self.data, &client, operation, self.kept.take()).await;
        let kill = async {
            tokio::time::sleep(delay).await;
            self.server.kill().unwrap();
        };
        // Reads to the end: an answer that was in flight at the kill counts.
        let (outcome, ()) = tokio::join!(subject.run(&client), kill);
        self.has_found_nothing(&format!("before {operation:?} was cut off"));
        let others = [self.running.id.as_str(), self.asleep.id.as_str()];
        match outcome {
            Ok(()) => {
                count.late += 1;
                span.too_late();
            }
            Err(error) if error.status().is_some() => panic!("{operation:?}: {error}"),
            Err(_) if subject.was_begun(self.data, &others).await => count.cut += 1,
            Err(_) => {
                count.early += 1;
                span.too_early(delay);
            }
        }
        self.standby = count.cut % 2;
        self.server = start(self.data, self.standby);
        let context = format!("{operation:?} cut off after {delay:?}; the server said: {}", self.server.said());
        self.check(subject, &context).await;
    }

    /// Checks that all sandboxes are as before the kill and that the operation's sandbox is
    /// complete, and looks for leaks.
    async fn check(&mut self, subject: Subject, context: &str) {
        let client = self.client();
        let known = [self.running.id.clone(), self.asleep.id.clone(), subject.id().to_owned()];
        for sandbox in client.list().await.unwrap() {
            // Earlier sandboxes have not failed. A create that was cut off may have.
            let fit = match known.iter().position(|id| *id == sandbox.id) {
                Some(0) => &["running"][..],
                Some(1) => &["hibernated"],
                Some(_) => &["running", "hibernated"],
                None => &["running", "hibernated", "failed"],
            };
            assert!(fit.contains(&sandbox.status.as_str()), "{} is {}; {context}", sandbox.id, sandbox.status);
        }
        for id in &known[..2] {
            client.get(id).await.unwrap_or_else(|error| panic!("{id}: {error}; {context}"));
        }
        self.running.check(&client).await;
        let second = client.create(&with_volume(Some(VOLUMES[0]))).await.expect_err("two write one volume");
        assert_eq!((second.status(), second.code()), (Some(409), Some("volume.in_use")), "{second}; {context}");
        self.kept = subject.check(&client).await;
        self.tidy(context).await;
        self.leaks_nothing(context).await;
    }

    async fn leaks_nothing(&self, context: &str) {
        let audit = self.client().audit().await.unwrap();
        assert_eq!((audit.leaks.as_slice(), audit.volumes), (&[][..], VOLUMES.len()), "{context}");
        // The template's and the sleeping sandbox's layers, and one that the kept sandbox was woken
        // from.
        let most = 2 + usize::from(self.kept.is_some());
        assert!((2..=most).contains(&audit.layers), "{} layers; {context}", audit.layers);
    }

    /// Removes the layer of an operation.
    async fn clean_up(&mut self, operation: Operation) {
        let context = format!("after the last {operation:?}");
        self.kept = None;
        self.tidy(&context).await;
        self.leaks_nothing(&context).await;
    }

    /// Removes everything. The volumes' file systems are consistent, with every reported line.
    async fn end(mut self) {
        let client = self.client();
        self.running.check(&client).await;
        self.asleep.check(&client).await;
        let told = self.running.told;
        let run_root = wait_for("a machine of the server", PATIENCE, async || run_root_of(self.data)).await;
        remove_others(&client, &[]).await;
        let disks = disks(self.data);
        assert_eq!(disks.len(), VOLUMES.len());
        let lines: Vec<u64> = disks.iter().map(|disk| lines_on(disk)).collect();
        assert!(lines.iter().any(|lines| *lines >= told), "of {told} lines there are {lines:?}");
        assert_eq!(self.server.stop().unwrap(), Some(0), "{}", self.server.said());
        self.has_found_nothing("at the end");
        assert_eq!(leftovers(self.data, &run_root).await, InstanceLeftovers::default());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_kills_in_the_middle_of_each_operation_lose_and_leave_nothing() {
    let kills = std::env::var("PANDASTACK_KILLS").map_or(KILLS, |count| count.parse().unwrap());
    let data = DataFolder::with_own_volume().unwrap();
    let _tidy = CleanUp(data.path());
    let mut trial = Trial::begin(data.path()).await;
    for operation in ALL {
        let began = Instant::now();
        let (mut count, mut spans) = (Count::default(), [None; 2]);
        while count.cut < kills {
            let mode = trial.standby as usize;
            let mut span = match spans[mode] {
                Some(span) => span,
                None => trial.whole(operation).await,
            };
            let delay = span.moment(count.cut / 2, kills.div_ceil(2));
            trial.cut(operation, delay, &mut span, &mut count).await;
            spans[mode] = Some(span);
            assert!(count.early + count.late <= kills * MISSES_MAX, "{operation:?} is hardly ever cut off: {count:?}");
        }
        trial.clean_up(operation).await;
        println!("{operation:?}: {count:?} in {:?}, {spans:?}", began.elapsed());
    }
    trial.end().await;
}

/// The server is killed repeatedly while it starts. Its sandboxes must survive unchanged: one
/// running, one paused, one asleep.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_killed_loses_nothing() {
    let data = DataFolder::with_own_volume().unwrap();
    let _tidy = CleanUp(data.path());
    let mut server = start(data.path(), 0);
    let before = client(&server);
    let mut running = Witness::make(&before, None).await;
    let mut paused = Witness::make(&before, None).await;
    before.pause(&paused.id).await.unwrap();
    let mut asleep = Witness::make(&before, None).await;
    before.hibernate(&asleep.id).await.unwrap();
    server.kill().unwrap();
    drop(server);
    let whole = {
        let began = Instant::now();
        let mut server = start(data.path(), 0);
        server.kill().unwrap();
        began.elapsed()
    };
    for moment in 1..=6 {
        TestServer::begin(data.path(), &["--standby", "0", "--blanks", "0"])
            .unwrap()
            .kill_after(whole * moment / 7)
            .unwrap();
    }
    let mut server = start(data.path(), 0);
    let client = client(&server);
    let audit = client.audit().await.unwrap();
    assert_eq!((audit.leaks.as_slice(), audit.machines), (&[][..], 2), "{}", server.said());
    for (witness, status) in [(&running, "running"), (&paused, "paused"), (&asleep, "hibernated")] {
        assert_eq!(client.get(&witness.id).await.unwrap().status, status, "{}", server.said());
    }
    running.check(&client).await;
    client.resume(&paused.id).await.unwrap();
    paused.check(&client).await;
    asleep.check(&client).await;
    remove_others(&client, &[]).await;
    assert_eq!(server.stop().unwrap(), Some(0), "{}", server.said());
    assert!(!server.said().contains("audit found leaks"), "{}", server.said());
}

fn start(data: &Path, standby: u32) -> TestServer {
    TestServer::start(data, &["--standby", &standby.to_string()]).unwrap()
}

async fn remove_others(client: &Client, keep: &[&str]) {
    for sandbox in client.list().await.unwrap() {
        if !keep.contains(&sandbox.id.as_str()) {
            client.delete(&sandbox.id).await.unwrap();
        }
    }
}

fn with_volume(name: Option<&str>) -> CreateSandbox {
    let mount =
        |name: &str| VolumeAttachment { name: name.to_owned(), read_only: None, mount_path: Some("/data".to_owned()) };
    let volumes = name.map(|name| vec![mount(name)]);
    CreateSandbox { template: Some("mini".into()), volumes, ..CreateSandbox::default() }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// The files of all volumes.
fn disks(data: &Path) -> Vec<PathBuf> {
    let volumes = std::fs::read_dir(data.join("volume/volumes")).unwrap();
    volumes.map(|entry| entry.unwrap().path().join("disk")).collect()
}

/// Checks an unused volume, and counts the lines on it. There must be no gap.
fn lines_on(disk: &Path) -> u64 {
    let checked = Command::new("e2fsck").args(["-f", "-n"]).arg(disk).env("LC_ALL", "C").output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    let log = Command::new("debugfs").args(["-R", "cat /log"]).arg(disk).output().unwrap();
    let log = String::from_utf8(log.stdout).unwrap();
    for (line, number) in log.lines().zip(1..) {
        assert_eq!(line.parse::<u64>(), Ok(number), "a gap");
    }
    log.lines().count() as u64
}

fn line(text: &str) -> ExecRequest {
    ExecRequest { cmd: Some(text.to_owned()), ..ExecRequest::default() }
}

async fn run(client: &Client, id: &str, text: &str) -> String {
    let ran = client.exec(id, &line(text)).await.unwrap();
    assert_eq!(ran.exit_code, 0, "{text}: {} {}", ran.stdout, ran.stderr);
    ran.stdout
}

fn client(server: &TestServer) -> Client {
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    Client::new(config.with_key(server.key.clone())).unwrap()
}

async fn leftovers(data_dir: &Path, run_root: &Path) -> InstanceLeftovers {
    let data_dir = data_dir.canonicalize().unwrap();
    InstanceLeftovers::find(&data_dir.display().to_string(), run_root, &data_dir).await.unwrap()
}

/// Starts a server that cleans up after one that a failed test had killed.
struct CleanUp<'a>(&'a Path);

impl Drop for CleanUp<'_> {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(mut server) = TestServer::start(self.0, &["--standby", "0", "--on-stop", "remove"])
        {
            let _ = server.stop();
        }
    }
}
