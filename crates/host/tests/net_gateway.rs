//! Tests of the service at the gateway: who reaches it, how many connections it has, and that they
//! end with the slot.

use std::{
    io::{self, BufRead as _, BufReader, Read as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use pandastack_host::net::{GATEWAY, GATEWAY_CONNECTIONS_MAX, GatewayGuest, NetSettings};
use pandastack_model::{Egress, SandboxId, SandboxSpec};
use pandastack_wire_fleet::{GATEWAY_PORT, GatewayService, GuestBytes};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::net_support::{
    Guest, PATIENCE, SILENCE, World, here,
    outside::OutsideNetwork,
    zone::{Zone, told},
};

const WEB: &str = "203.0.113.7";

/// Tells each guest its sandbox's id, then waits until it hangs up.
#[derive(Default)]
struct NameTeller {
    open: Arc<AtomicUsize>,
}

/// Counts an open connection until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl GatewayService for NameTeller {
    fn serves(&self, _: &SandboxSpec) -> bool {
        true
    }

    async fn serve(&self, sandbox: SandboxId, mut stream: Box<dyn GuestBytes>) {
        self.open.fetch_add(1, Ordering::Relaxed);
        let _counted = Counted(self.open.clone());
        stream.write_all(format!("{sandbox}\n").as_bytes()).await.unwrap();
        let _ = stream.read_u8().await;
    }
}

fn at(address: &str, port: u16) -> SocketAddr {
    format!("{address}:{port}").parse().unwrap()
}

fn only(rules: &[&str]) -> Egress {
    Egress::Only(rules.iter().map(|rule| rule.parse().unwrap()).collect())
}

/// A connection of a guest to its gateway, once the service has named the sandbox.
fn call(guest: &Guest, patience: Duration) -> io::Result<(String, TcpStream)> {
    let stream = guest.netns.connect((GATEWAY, GATEWAY_PORT).into(), patience)?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(patience))?;
    let mut line = String::new();
    match BufReader::new(&stream).read_line(&mut line)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok((line.trim().to_owned(), stream)),
    }
}

async fn called(world: &World, guest: &Arc<Guest>) -> io::Result<(String, TcpStream)> {
    let guest = guest.clone();
    world.block(move || call(&guest, PATIENCE)).await
}

/// Tells whether a guest is not served.
async fn is_refused(world: &World, guest: &Arc<Guest>) -> bool {
    let guest = guest.clone();
    world.block(move || call(&guest, SILENCE).is_err()).await
}

/// Waits until so many connections are open.
async fn until_open(service: &NameTeller, count: usize) {
    let deadline = Instant::now() + PATIENCE;
    while service.open.load(Ordering::Relaxed) != count {
        assert!(Instant::now() < deadline, "{} connections are open", service.open.load(Ordering::Relaxed));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn only_a_served_guest_connects() {
    World::run(|world| async move {
        let mut outside = OutsideNetwork::new(&[WEB.parse().unwrap()]).unwrap();
        outside.greet(at("0.0.0.0", 80)).unwrap();
        let pool = world.pool(world.settings()).await;
        let (slot, other) = (pool.take().await.unwrap(), pool.take().await.unwrap());
        let (guest, stranger) = (Arc::new(Guest::in_slot(&slot)), Arc::new(Guest::in_slot(&other)));
        assert!(is_refused(&world, &guest).await, "nobody serves it yet");
        let (sandbox, service) = (SandboxId::random(), Arc::new(NameTeller::default()));
        let serve = async |egress: &Egress| {
            let started = Instant::now();
            slot.serve_gateway(egress, GatewayGuest { sandbox, service: service.clone() }).await.unwrap();
            started.elapsed()
        };
        eprintln!("serve a guest: {:?}", serve(&Egress::Open).await);
        let (name, open) = called(&world, &guest).await.unwrap();
        assert_eq!(name, sandbox.to_string());
        assert!(guest.netns.connect(at(WEB, 80), PATIENCE).is_ok(), "the rest is as before");
        for egress in [only(&[]), only(&["198.51.100.0/24"]), Egress::Open] {
            slot.set_egress(&egress).await.unwrap();
            assert_eq!(called(&world, &guest).await.unwrap().0, sandbox.to_string(), "{egress:?}");
            let patience = if egress == Egress::Open { PATIENCE } else { SILENCE };
            assert_eq!(guest.netns.connect(at(WEB, 80), patience).is_ok(), egress == Egress::Open);
            other.set_egress(&egress).await.unwrap();
            let refused = called(&world, &stranger).await.expect_err("it is not served");
            let waited = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
            assert!(!waited.contains(&refused.kind()), "{egress:?}: a refusal is told: {refused}");
        }
        drop(open);
        eprintln!("serve a guest and list: {:?}", serve(&only(&[])).await);
        assert_eq!(called(&world, &guest).await.unwrap().0, sandbox.to_string());
        let beside = SocketAddr::from((GATEWAY, GATEWAY_PORT + 1));
        assert!(guest.netns.connect(beside, SILENCE).is_err(), "only one port is open");
        let uplink = SocketAddr::from((slot.uplink_address(), GATEWAY_PORT));
        assert!(guest.netns.connect(uplink, SILENCE).is_err(), "only at the gateway");
        assert!(here().connect(uplink, SILENCE).is_err(), "only from the guest");
        pool.close().await.unwrap();
    });
}

#[test]
fn connections_have_a_limit_and_end_with_the_slot() {
    World::run(|world| async move {
        let pool = world.pool(NetSettings { ready: 0, ..world.settings() }).await;
        let before = world.scope.tasks();
        let slot = pool.take().await.unwrap();
        let guest = Arc::new(Guest::in_slot(&slot));
        let (sandbox, service) = (SandboxId::random(), Arc::new(NameTeller::default()));
        slot.serve_gateway(&only(&[]), GatewayGuest { sandbox, service: service.clone() }).await.unwrap();
        let mut open = Vec::new();
        for _ in 0..GATEWAY_CONNECTIONS_MAX {
            open.push(called(&world, &guest).await.unwrap().1);
        }
        for _ in 0..3 {
            assert!(is_refused(&world, &guest).await, "one too many is closed at once");
        }
        assert_eq!(service.open.load(Ordering::Relaxed), GATEWAY_CONNECTIONS_MAX);
        open.pop();
        until_open(&service, GATEWAY_CONNECTIONS_MAX - 1).await;
        open.push(called(&world, &guest).await.unwrap().1);
        pool.give_back(slot).await.unwrap();
        assert_eq!(service.open.load(Ordering::Relaxed), 0, "the calls are over when the slot is gone");
        assert_eq!(world.scope.tasks(), before, "and so are their tasks");
        assert_eq!(Arc::strong_count(&service), 1);
        pool.close().await.unwrap();
    });
}

#[test]
fn a_service_that_panics_loses_one_connection() {
    struct Panicking(NameTeller, AtomicUsize);

    #[async_trait]
    impl GatewayService for Panicking {
        fn serves(&self, _: &SandboxSpec) -> bool {
            true
        }

        async fn serve(&self, sandbox: SandboxId, stream: Box<dyn GuestBytes>) {
            assert_ne!(self.1.fetch_add(1, Ordering::Relaxed), 0, "on purpose");
            self.0.serve(sandbox, stream).await;
        }
    }

    World::run(|world| async move {
        let pool = world.pool(world.settings()).await;
        let slot = pool.take().await.unwrap();
        let guest = Arc::new(Guest::in_slot(&slot));
        let (sandbox, service) = (SandboxId::random(), Arc::new(Panicking(NameTeller::default(), AtomicUsize::new(0))));
        slot.serve_gateway(&Egress::Open, GatewayGuest { sandbox, service }).await.unwrap();
        assert!(is_refused(&world, &guest).await);
        assert_eq!(called(&world, &guest).await.unwrap().0, sandbox.to_string());
        pool.close().await.unwrap();
    });
}

#[test]
fn the_next_process_serves_whom_it_wants() {
    World::run(|world| async move {
        let mut outside = OutsideNetwork::new(&[WEB.parse().unwrap()]).unwrap();
        outside.greet(at("0.0.0.0", 80)).unwrap();
        let (resolver, _) = Zone { ttl: 300, ..Zone::default() }.with("web.test", &[WEB]).serve(&world.scope).await;
        let settings = NetSettings { resolvers: vec![resolver], ..world.settings() };
        let list = only(&["web.test"]);
        let (sandbox, service) = (SandboxId::random(), Arc::new(NameTeller::default()));
        let served = GatewayGuest { sandbox, service: service.clone() };

        let pool = world.pool(settings.clone()).await;
        let slot = pool.take().await.unwrap();
        let guest = Arc::new(Guest::in_slot(&slot));
        slot.serve_gateway(&list, served.clone()).await.unwrap();
        let (_, mut open) = called(&world, &guest).await.unwrap();
        let asker = guest.clone();
        assert_eq!(world.block(move || asker.resolve("web.test")).await, told(&[WEB]));
        let name = slot.name().to_owned();
        pool.detach().await.unwrap();
        drop(slot);
        until_open(&service, 0).await;
        let end = world.block(move || open.read(&mut [0])).await;
        assert!(end.is_err() || end.is_ok_and(|bytes| bytes == 0), "the guest is told of the end");

        let pool = world.pool(settings.clone()).await;
        let slot = pool.adopt(&name, &list).await.unwrap();
        assert!(is_refused(&world, &guest).await, "a slot is closed until somebody serves it");
        slot.serve_gateway(&list, served).await.unwrap();
        assert_eq!(called(&world, &guest).await.unwrap().0, sandbox.to_string());
        assert!(guest.netns.connect(at(WEB, 80), PATIENCE).is_ok(), "names of the earlier process stay open");
        pool.detach().await.unwrap();
        drop(slot);

        let pool = world.pool(settings).await;
        let _slot = pool.adopt(&name, &list).await.unwrap();
        assert!(is_refused(&world, &guest).await, "it is served no more");
        pool.close().await.unwrap();
    });
}
