//! The built server is killed with SIGKILL in the middle of every operation and started again, on real machines: who ran runs
//! on with its processes, who slept sleeps, what was half-made is finished or gone, and nothing leaks.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is the test's failure")]

use std::{
    path::Path,
    time::{Duration, Instant},
};

use pandastack_client::{
    Client, Config,
    wire::{CreateSandbox, ExecRequest, ForkRequest, Sandbox},
};
use pandastack_e2e::PATIENCE;
use pandastack_testbed::{DataFolder, Leftovers, Server, run_root_of, wait_for};

/// How often each operation is cut off. Five operations make twenty.
const MOMENTS: u32 = 4;

/// How often one may come to its end before the kill.
const ENDED_MAX: u32 = 8;

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

/// A sandbox in which a process counts. The count is in the process only; the file says where it stands.
struct Witness {
    id: String,
    pid: u32,
    seen: u64,
}

/// Counts up from 1 for ever: a process that was started anew would be seen to begin again.
const COUNTER: &str = "setsid sh -c 'n=0; while :; do n=$((n+1)); echo $n > /dev/shm/next; \
                       mv /dev/shm/next /dev/shm/count; sleep 0.05; done' > /dev/null 2>&1 < /dev/null & echo $!";

impl Witness {
    async fn make(client: &Client) -> Self {
        let id = create(client).await.id;
        let pid = run(client, &id, COUNTER).await.trim().parse().unwrap();
        let mut witness = Self { id, pid, seen: 0 };
        let counts =
            async || client.exec(&witness.id, &line("cat /dev/shm/count")).await.ok()?.stdout.trim().parse().ok();
        witness.seen = wait_for("the first count", PATIENCE, counts).await;
        witness
    }

    /// The process lives, and has gone on from where it was. Wakes a sleeper.
    async fn check(&mut self, client: &Client) {
        let seen = run(client, &self.id, &format!("kill -0 {} && cat /dev/shm/count", self.pid)).await;
        let seen: u64 = seen.trim().parse().unwrap();
        assert!(seen >= self.seen, "the counter went back from {} to {seen}", self.seen);
        let further = async || {
            let now: u64 = run(client, &self.id, "cat /dev/shm/count").await.trim().parse().ok()?;
            (now > seen).then_some(now)
        };
        self.seen = wait_for("the counter goes on", PATIENCE, further).await;
    }
}

/// What an operation is about.
struct Subject {
    operation: Operation,
    witness: Option<Witness>,
}

impl Subject {
    async fn make(client: &Client, operation: Operation) -> Self {
        if operation == Operation::Create {
            return Self { operation, witness: None };
        }
        let witness = Witness::make(client).await;
        if operation == Operation::Wake {
            client.hibernate(&witness.id).await.unwrap();
        }
        Self { operation, witness: Some(witness) }
    }

    async fn run(&self, client: &Client) -> Result<(), pandastack_client::ClientError> {
        let id = self.witness.as_ref().map_or("", |witness| witness.id.as_str());
        match self.operation {
            Operation::Create => client.create(&plain()).await.map(drop),
            Operation::Fork => {
                let ask = ForkRequest { count: Some(2), ..ForkRequest::default() };
                client.fork_tree(id, &ask).await.map(drop)
            }
            Operation::Hibernate => client.hibernate(id).await.map(drop),
            Operation::Wake => client.wake(id).await.map(drop),
            Operation::Delete => client.delete(id).await,
        }
    }

    /// Checks that the operation was finished or never begun.
    async fn check(self, client: &Client) {
        let Self { operation, witness } = self;
        let Some(mut witness) = witness else { return };
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
        if status != "gone" {
            witness.check(client).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_kills_in_the_middle_lose_and_leave_nothing() {
    let data = DataFolder::with_own_volume().unwrap();
    let _tidy = CleanUp(data.path());
    let mut server = start(data.path());
    let client = |server: &Server| client(server);
    let (mut running, mut asleep) = {
        let client = client(&server);
        let (running, asleep) = (Witness::make(&client).await, Witness::make(&client).await);
        client.hibernate(&asleep.id).await.unwrap();
        (running, asleep)
    };
    let run_root = wait_for("a machine of the server", PATIENCE, async || run_root_of(data.path())).await;
    let (mut cut, mut ended) = (0_u32, 0_u32);
    for operation in ALL {
        let mut whole = {
            let client = client(&server);
            let subject = Subject::make(&client, operation).await;
            let began = Instant::now();
            subject.run(&client).await.unwrap();
            let took = began.elapsed();
            subject.check(&client).await;
            remove_others(&client, [&running.id, &asleep.id]).await;
            took
        };
        let (cut_before, ended_before) = (cut, ended);
        while cut - cut_before < MOMENTS {
            let before = client(&server);
            let subject = Subject::make(&before, operation).await;
            let delay = whole * (cut - cut_before) / MOMENTS + Duration::from_millis(1);
            tokio::select! {
                biased;
                () = tokio::time::sleep(delay) => cut += 1,
                outcome = subject.run(&before) => {
                    // Killed after its end: it must stand. The next one is cut off sooner.
                    outcome.unwrap();
                    ended += 1;
                    whole = whole * 2 / 3;
                    assert!(ended - ended_before < ENDED_MAX, "{operation:?} is never cut off");
                }
            }
            server.kill().unwrap();
            drop(server);
            server = start(data.path());
            let after = client(&server);
            let context = format!("{operation:?} cut off after {delay:?}; the server said: {}", server.said());
            let statuses = [&running.id, &asleep.id].map(|id| after.get(id));
            let statuses = futures_util::future::join_all(statuses).await;
            let statuses: Vec<String> = statuses.into_iter().map(|sandbox| sandbox.unwrap().status).collect();
            assert_eq!(statuses, ["running", "hibernated"], "{context}");
            running.check(&after).await;
            subject.check(&after).await;
            for sandbox in after.list().await.unwrap() {
                let settled = ["running", "hibernated", "failed"].contains(&sandbox.status.as_str());
                assert!(settled, "{} is {}; {context}", sandbox.id, sandbox.status);
            }
            remove_others(&after, [&running.id, &asleep.id]).await;
            let audit = after.audit().await.unwrap();
            assert_eq!((audit.leaks.as_slice(), audit.machines), (&[][..], 1), "{context}");
            assert_eq!(audit.layers, 2, "the template and the sleeper's; {context}");
        }
    }
    println!("{cut} operations were cut off, {ended} came to their end first");
    assert_eq!(cut, 20);
    let client = client(&server);
    running.check(&client).await;
    asleep.check(&client).await;
    remove_others(&client, []).await;
    assert_eq!(server.stop().unwrap(), Some(0), "{}", server.said());
    assert_eq!(leftovers(data.path(), &run_root).await, Leftovers::default());
}

/// The server is killed again and again while it starts: what it had is still there in the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_killed_loses_nothing() {
    let data = DataFolder::with_own_volume().unwrap();
    let _tidy = CleanUp(data.path());
    let mut server = start(data.path());
    let before = client(&server);
    let (mut one, mut two) = (Witness::make(&before).await, Witness::make(&before).await);
    server.kill().unwrap();
    drop(server);
    let whole = {
        let began = Instant::now();
        let mut server = start(data.path());
        server.kill().unwrap();
        began.elapsed()
    };
    for moment in 1..=6 {
        Server::begin(data.path(), &["--standby", "0"]).unwrap().kill_after(whole * moment / 7).unwrap();
    }
    let mut server = start(data.path());
    let client = client(&server);
    one.check(&client).await;
    two.check(&client).await;
    let audit = client.audit().await.unwrap();
    assert_eq!((audit.leaks.as_slice(), audit.machines), (&[][..], 2), "{}", server.said());
    remove_others(&client, []).await;
    assert_eq!(server.stop().unwrap(), Some(0), "{}", server.said());
}

fn start(data: &Path) -> Server {
    Server::start(data, &["--standby", "0"]).unwrap()
}

async fn remove_others<const N: usize>(client: &Client, keep: [&String; N]) {
    for sandbox in client.list().await.unwrap() {
        if !keep.contains(&&sandbox.id) {
            client.delete(&sandbox.id).await.unwrap();
        }
    }
}

fn plain() -> CreateSandbox {
    CreateSandbox { template: Some("mini".into()), ..CreateSandbox::default() }
}

async fn create(client: &Client) -> Sandbox {
    client.create(&plain()).await.unwrap()
}

fn line(text: &str) -> ExecRequest {
    ExecRequest { cmd: Some(text.to_owned()), ..ExecRequest::default() }
}

async fn run(client: &Client, id: &str, text: &str) -> String {
    let ran = client.exec(id, &line(text)).await.unwrap();
    assert_eq!(ran.exit_code, 0, "{text}: {} {}", ran.stdout, ran.stderr);
    ran.stdout
}

fn client(server: &Server) -> Client {
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    Client::new(config.with_key(server.key.clone())).unwrap()
}

async fn leftovers(data_dir: &Path, run_root: &Path) -> Leftovers {
    let data_dir = data_dir.canonicalize().unwrap();
    Leftovers::find(&data_dir.display().to_string(), run_root, &data_dir).await.unwrap()
}

/// Lets a server clean up after one that a failed test had killed.
struct CleanUp<'a>(&'a Path);

impl Drop for CleanUp<'_> {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(mut server) = Server::start(self.0, &["--standby", "0", "--on-stop", "remove"])
        {
            let _ = server.stop();
        }
    }
}
