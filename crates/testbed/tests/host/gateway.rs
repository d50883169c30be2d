//! The service at the gateway over a sandbox's life, and the platform's own uses. The test plays
//! the guest's network: a namespace whose link replaces the machine's tap.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufRead as _, BufReader, Read as _},
    net::TcpStream,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use pandastack_host::{
    HostSettings, ShutdownMode,
    net::{GATEWAY, GATEWAY_MAC, GUEST, GUEST_MAC, TAP},
};
use pandastack_model::{Egress, GuestPort, LayerId, SandboxId, SandboxSpec, SandboxState};
use pandastack_sys::netns::Netns;
use pandastack_testbed::{
    FakeBed, FakeHostState, finish,
    outside::{ip, unique},
    spec, wait_for, with_fake_bed,
};
use pandastack_vmm_fake::DriverCall;
use pandastack_wire_fleet::{
    EnsureParams, ExecEvent, ExecParams, ForkParams, GATEWAY_PORT, GatewayService, GuestBytes, HostPort, IdlePolicy,
    UseKind,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{
    SOON,
    crash::{cut_off, runtime},
};

/// How long to wait where no answer may arrive: longer than one usually takes.
const SILENCE: Duration = Duration::from_secs(3);

/// Metadata of a sandbox that is served.
const MARK: &str = "served";

const SHORT: IdlePolicy = IdlePolicy { ttl_seconds: 1, persistent: true };

/// Tells each guest its sandbox's id, then waits until it hangs up.
struct NameTeller;

#[async_trait]
impl GatewayService for NameTeller {
    fn serves(&self, spec: &SandboxSpec) -> bool {
        spec.metadata.contains_key(MARK)
    }

    async fn serve(&self, sandbox: SandboxId, mut stream: Box<dyn GuestBytes>) {
        stream.write_all(format!("{sandbox}\n").as_bytes()).await.unwrap();
        let _ = stream.read_u8().await;
    }
}

fn settings() -> HostSettings {
    HostSettings { gateway: Some(Arc::new(NameTeller)), ..FakeBed::settings() }
}

fn served() -> SandboxSpec {
    let metadata = BTreeMap::from([(MARK.to_owned(), String::new())]);
    SandboxSpec { metadata, persistent: true, ttl_seconds: 0, egress: Egress::Only(Vec::new()), ..spec("mini") }
}

async fn create(bed: &FakeBed, spec: SandboxSpec) -> SandboxId {
    let id = SandboxId::random();
    bed.host.ensure(EnsureParams { id, generation: 1, spec }).await.unwrap();
    id
}

/// The namespaces of the bed's machines.
async fn slots(bed: &FakeBed) -> BTreeSet<String> {
    let names = bed.leftovers().await.unwrap().network;
    names.into_iter().filter(|name| Path::new("/run/netns").join(name).exists()).collect()
}

/// The network of one machine's guest.
struct GuestNetwork {
    name: String,
    netns: Netns,
}

impl GuestNetwork {
    /// Plays the guest in the only slot that is not among the known ones, which then knows it.
    async fn in_new_slot(bed: &FakeBed, known: &mut BTreeSet<String>) -> GuestNetwork {
        let now = slots(bed).await;
        let new: Vec<_> = now.difference(known).cloned().collect();
        let [slot] = &new[..] else { panic!("there is not one new slot: {new:?}") };
        *known = now.clone();
        let name = unique("pdg");
        ip(&["netns", "add", &name], "").unwrap();
        let outer = format!(
            "link del {TAP}\n\
             link add {TAP} address {GATEWAY_MAC} type veth peer name eth0 address {GUEST_MAC} netns {name}\n\
             addr add {GATEWAY}/30 dev {TAP}\n\
             link set {TAP} up\n\
             neigh replace {GUEST} lladdr {GUEST_MAC} dev {TAP} nud permanent\n"
        );
        ip(&["-n", slot, "-batch", "-"], &outer).unwrap();
        let inner = format!(
            "addr add {GUEST}/30 dev eth0\n\
             link set eth0 up\n\
             neigh replace {GATEWAY} lladdr {GATEWAY_MAC} dev eth0 nud permanent\n"
        );
        ip(&["-n", &name, "-batch", "-"], &inner).unwrap();
        let netns = Netns::open(&Path::new("/run/netns").join(&name)).unwrap();
        GuestNetwork { name, netns }
    }

    /// Connects to the gateway and returns what the service says first.
    fn call(&self) -> io::Result<(String, TcpStream)> {
        self.call_within(SOON)
    }

    fn call_within(&self, patience: Duration) -> io::Result<(String, TcpStream)> {
        let stream = self.netns.connect((GATEWAY, GATEWAY_PORT).into(), patience)?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(patience))?;
        let mut line = String::new();
        match BufReader::new(&stream).read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok((line.trim().to_owned(), stream)),
        }
    }

    /// Returns the sandbox that the service knows this guest as.
    fn known_as(&self) -> Option<String> {
        self.call().ok().map(|(name, _)| name)
    }

    /// Tells whether the service does not serve this guest.
    fn is_refused(&self) -> bool {
        self.call_within(SILENCE).is_err()
    }
}

impl Drop for GuestNetwork {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.name], "");
    }
}

/// Whether the far end has closed a connection.
fn has_ended(mut stream: TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(bytes) => bytes == 0,
        Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_is_served_after_create_fork_and_wake() {
    with_fake_bed(settings(), async |bed| {
        let mut known = slots(bed).await;
        let id = create(bed, served()).await;
        let guest = GuestNetwork::in_new_slot(bed, &mut known).await;
        let (name, open) = guest.call().unwrap();
        assert_eq!(name, id.to_string());
        let _stranger = create(bed, SandboxSpec { metadata: BTreeMap::new(), ..served() }).await;
        let strange = GuestNetwork::in_new_slot(bed, &mut known).await;
        assert!(strange.is_refused(), "a sandbox that is not served is refused");
        bed.host.set_egress(id, Egress::Open).await.unwrap();
        assert_eq!(guest.known_as(), Some(id.to_string()), "with another egress list too");

        let child = SandboxId::random();
        let children = vec![EnsureParams { id: child, generation: 1, spec: served() }];
        let forked = bed.host.fork(ForkParams { parent: id, layer: LayerId::random(), children }).await.unwrap();
        forked.children[0].as_ref().unwrap();
        let young = GuestNetwork::in_new_slot(bed, &mut known).await;
        assert_eq!(young.known_as(), Some(child.to_string()));
        assert_eq!(guest.known_as(), Some(id.to_string()));

        bed.host.sleep(id).await.unwrap();
        assert!(has_ended(open), "a sleep ends its connections");
        known = slots(bed).await;
        bed.host.wake(id).await.unwrap();
        let awake = GuestNetwork::in_new_slot(bed, &mut known).await;
        assert_eq!(awake.known_as(), Some(id.to_string()));
        assert_eq!(young.known_as(), Some(child.to_string()));
    })
    .await;
}

/// A connection through the gateway does not keep its sandbox awake.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_to_the_gateway_is_no_use() {
    with_fake_bed(settings(), async |bed| {
        let mut known = slots(bed).await;
        let id = create(bed, served()).await;
        let guest = GuestNetwork::in_new_slot(bed, &mut known).await;
        let (_, open) = guest.call().unwrap();
        // Only now, because a busy machine may need longer than that for the steps above.
        bed.host.set_lifecycle(id, SHORT).await.unwrap();
        wait_for("its sleep", SOON, async || (bed.state(id).await? == SandboxState::Asleep).then_some(())).await;
        assert!(has_ended(open));
    })
    .await;
}

/// How the first process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stopped,
    Killed,
}

#[test]
fn the_next_process_serves_the_machines_it_adopts() {
    for end in [End::Stopped, End::Killed] {
        let first = runtime();
        let (ground, id, stranger, guest, strange, open) = first.block_on(async {
            let ground = Arc::new(FakeHostState::make().await.unwrap());
            let bed = FakeBed::start_over(ground.clone(), settings()).await.unwrap();
            let mut known = slots(&bed).await;
            let id = create(&bed, served()).await;
            let guest = GuestNetwork::in_new_slot(&bed, &mut known).await;
            let stranger = create(&bed, SandboxSpec { metadata: BTreeMap::new(), ..served() }).await;
            let strange = GuestNetwork::in_new_slot(&bed, &mut known).await;
            let (_, open) = guest.call().unwrap();
            if end == End::Stopped {
                bed.host.close_as(ShutdownMode::Running).await;
            }
            (ground, id, stranger, guest, strange, open)
        });
        cut_off(first);
        assert!(has_ended(open), "{end:?}");
        assert!(guest.is_refused(), "{end:?}: nobody is there");
        let next = runtime();
        next.block_on(async {
            let bed = FakeBed::start_over(ground, settings()).await.unwrap();
            assert_eq!(bed.host.recovered().adopted, 2, "{end:?}");
            assert_eq!(guest.known_as(), Some(id.to_string()), "{end:?}");
            assert!(strange.is_refused(), "{end:?}");
            for id in [id, stranger] {
                bed.host.remove(id).await.unwrap();
            }
            bed.host.close().await;
        });
    }
}

fn echo() -> ExecParams {
    ExecParams::shell("echo up", SOON)
}

/// The platform's own uses neither wake a sandbox nor keep it awake.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_platform_is_no_client() {
    with_fake_bed(settings(), async |bed| {
        let id = create(bed, SandboxSpec { ttl_seconds: 2, ..served() }).await;
        let restores = bed.driver.faults().calls(DriverCall::Restore);
        let port = GuestPort::try_from(3000).unwrap();
        let started = Instant::now();
        let asleep = loop {
            match bed.host.exec_as(id, echo(), UseKind::Platform).await {
                Ok(running) => match finish(running).await {
                    (output, ExecEvent::Exit { code: 0 }) => assert_eq!(output, "up\n"),
                    // Cut by the sleep.
                    (_, ExecEvent::Failed(_)) => {}
                    (_, other) => panic!("{other:?}"),
                },
                Err(fault) if fault.code == UseKind::ASLEEP => break fault,
                // It falls asleep at this moment.
                Err(fault) => assert_ne!(bed.state(id).await, Some(SandboxState::Running), "{fault}"),
            }
            assert!(started.elapsed() < SOON, "the platform keeps it awake");
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert_eq!(asleep.text, "the sandbox is hibernated; wake it first");
        let refused = bed.host.connect_as(id, port, UseKind::Platform).await.err().unwrap();
        assert_eq!(refused.code, UseKind::ASLEEP);
        assert_eq!(bed.state(id).await, Some(SandboxState::Asleep));
        assert_eq!(bed.driver.faults().calls(DriverCall::Restore), restores, "nothing woke it");

        assert_eq!(finish(bed.host.exec(id, echo()).await.unwrap()).await.0, "up\n", "a client wakes it");
        bed.host.pause(id).await.unwrap();
        let paused = bed.host.exec_as(id, echo(), UseKind::Platform).await.err().unwrap();
        assert_eq!(paused.code, "sandbox.invalid_state");
    })
    .await;
}

/// A connection of the platform does not keep its sandbox awake, and breaks when it sleeps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sleep_breaks_the_platforms_connection() {
    with_fake_bed(settings(), async |bed| {
        let mut known = slots(bed).await;
        let id = create(bed, served()).await;
        let guest = GuestNetwork::in_new_slot(bed, &mut known).await;
        let _listener = guest.netns.listen_tcp((GUEST, 3000).into()).unwrap();
        let port = GuestPort::try_from(3000).unwrap();
        let mut stream = bed.host.connect_as(id, port, UseKind::Platform).await.unwrap();
        bed.host.set_lifecycle(id, SHORT).await.unwrap();
        wait_for("its sleep", SOON, async || (bed.state(id).await? == SandboxState::Asleep).then_some(())).await;
        let end = tokio::time::timeout(SOON, stream.read_u8()).await.expect("the connection ends");
        assert!(end.is_err());
    })
    .await;
}
