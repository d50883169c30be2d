//! Connections to the guest's own ports. The test itself listens, inside the machine's namespace.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    time::Duration,
};

use futures_util::future::join_all;
use pandastack_host::net::GUEST;
use pandastack_model::{Fault, FaultKind, GuestPort, SandboxId, SandboxSpec, SandboxState};
use pandastack_sys::netns::Netns;
use pandastack_testbed::{FakeBed, spec, wait_for, with_fake_bed};
use pandastack_vmm_fake::DriverCall;
use pandastack_wire_fleet::{EnsureParams, HostPort, IdlePolicy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::SOON;

fn port(number: i64) -> GuestPort {
    GuestPort::try_from(number).unwrap()
}

/// Listens at the guest's address of the bed's only machine.
async fn listen(bed: &FakeBed, number: u16) -> TcpListener {
    let names = bed.leftovers().await.unwrap().network;
    let name = names.iter().find(|name| Path::new("/run/netns").join(name).exists()).unwrap();
    let netns = Netns::open(&Path::new("/run/netns").join(name)).unwrap();
    let added = netns.run(|| {
        let address = format!("{GUEST}/32");
        Command::new("ip").args(["address", "replace", &address, "dev", "lo"]).status()
    });
    assert!(added.unwrap().unwrap().success(), "the guest's address is ours now");
    let listener = netns.listen_tcp(SocketAddr::from((GUEST, number))).unwrap();
    listener.set_nonblocking(false).unwrap();
    listener
}

/// Echoes on so many connections until the listener's namespace is gone.
fn echo(listener: TcpListener, connections: usize) -> std::thread::JoinHandle<Vec<TcpStream>> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().unwrap();
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            stream.write_all(&byte).unwrap();
            kept.push(stream);
        }
        kept
    })
}

#[tokio::test]
async fn bytes_pass_and_a_closed_port_says_so() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let served = echo(listen(bed, 3000).await, 1);
        let mut stream = bed.host.connect(id, port(3000)).await.unwrap();
        stream.write_all(b"x").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'x');
        let mut far = served.join().unwrap();
        far.pop().unwrap().write_all(b"bye").unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "bye", "what was said before the end arrives");
        let refused = bed.host.connect(id, port(3001)).await.err().unwrap();
        assert_eq!((refused.kind, refused.code), (FaultKind::Conflict, "port.not_listening"));
        assert!(refused.text.contains("connection refused"), "{refused}");
        let ports: Vec<_> = bed.host.listening(id).await.unwrap().into_iter().map(|port| port.port.get()).collect();
        assert_eq!(ports, [8000]);
        bed.host.pause(id).await.unwrap();
        let paused = bed.host.connect(id, port(3000)).await.err().unwrap();
        assert_eq!(paused.code, "sandbox.invalid_state", "{paused}");
        bed.host.remove(id).await.unwrap();
        assert_eq!(bed.host.connect(id, port(3000)).await.err().unwrap().kind, FaultKind::Missing);
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test]
async fn a_connection_is_a_use_for_as_long_as_it_is_open() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let id = SandboxId::random();
        let lasting = SandboxSpec { ttl_seconds: 0, persistent: true, ..spec("mini") };
        bed.host.ensure(EnsureParams { id, generation: 1, spec: lasting }).await.unwrap();
        let listener = listen(bed, 3000).await;
        let stream = bed.host.connect(id, port(3000)).await.unwrap();
        // Only now, because a busy machine may need longer than that for the steps above.
        bed.host.set_lifecycle(id, IdlePolicy { ttl_seconds: 1, persistent: true }).await.unwrap();
        // Longer than the idle limit: nothing must happen.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert_eq!(bed.state(id).await, Some(SandboxState::Running));
        assert_eq!(bed.host.observe(id).await.unwrap().idle, Duration::ZERO);
        drop((stream, listener));
        let asleep = async || (bed.state(id).await? == SandboxState::Asleep).then_some(());
        wait_for("its sleep", SOON, asleep).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sleep_breaks_connections_and_those_that_come_share_one_wake() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let served = echo(listen(bed, 3000).await, 1);
        let mut stream = bed.host.connect(id, port(3000)).await.unwrap();
        stream.write_all(b"x").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'x');
        bed.host.sleep(id).await.unwrap();
        let end = tokio::time::timeout(SOON, stream.read_u8()).await.expect("the connection ends");
        assert!(end.is_err(), "a connection to a machine that is gone is broken");
        drop((stream, served.join().unwrap()));
        let restores = bed.driver.faults().calls(DriverCall::Restore);
        let awake = async || (bed.state(id).await? == SandboxState::Running).then_some(());
        tokio::select! {
            // The new namespace has no listener and does not answer.
            tried = join_all((0..12).map(|_| bed.host.connect(id, port(3000)))) => {
                let other = |fault: &Fault| fault.code != "sandbox.wake_failed";
                assert!(tried.iter().all(|tried| tried.as_ref().is_err_and(other)));
            }
            () = wait_for("the wake", SOON, awake) => {}
        }
        assert_eq!(bed.driver.faults().calls(DriverCall::Restore), restores + 1);
        assert_eq!(bed.state(id).await, Some(SandboxState::Running));
    })
    .await;
}

#[tokio::test]
async fn connections_have_a_limit_and_come_back() {
    const MAX: usize = 512;
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let listener = listen(bed, 3000).await;
        let accepting = std::thread::spawn(move || {
            let kept: Vec<_> = (0..MAX + 1).map(|_| listener.accept().unwrap()).collect();
            drop(kept);
        });
        let mut open = Vec::new();
        for _ in 0..MAX {
            open.push(bed.host.connect(id, port(3000)).await.unwrap());
        }
        let refused = bed.host.connect(id, port(3000)).await.err().unwrap();
        assert_eq!(refused.kind, FaultKind::Quota, "{refused}");
        open.pop();
        open.push(bed.host.connect(id, port(3000)).await.unwrap());
        accepting.join().unwrap();
    })
    .await;
}
