//! Limits and deadlines: each one ends in a refusal that the client can read, or in a closed
//! connection.

use std::time::Duration;

use pandastack_postgres_proxy::{RefusalReason, TunnelLimits};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::setup::{Behind, ID, OTHER_ID, PATIENCE, ProxySetup, TLS_REQUEST, host, refusal, startup, wait_for};

const USER: &[(&str, &str)] = &[("user", "a")];

#[tokio::test]
async fn each_limit_is_told() {
    let database = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let behind = Behind::At(database.local_addr().unwrap());
    let limits = TunnelLimits { total: 9, per_database: 1, per_address: 2, ..TunnelLimits::default() };
    let setup = ProxySetup::start_with(&[(ID, behind), (OTHER_ID, behind)], |settings| settings.tunnels = limits).await;
    let first = setup.client(&host(ID), &startup(USER)).await;
    let active = |count| {
        let figures = setup.figures.clone();
        wait_for("the tunnels", move || figures.counts().active_connections == count)
    };
    active(1).await;
    let mut beyond = setup.client(&host(ID), &startup(USER)).await;
    let (state, text) = refusal(&mut beyond).await;
    assert!(state == "53300" && text.contains("this database"), "{state} {text}");
    let second = setup.client(&host(OTHER_ID), &startup(USER)).await;
    active(2).await;
    let mut beyond = setup.client(&host(OTHER_ID), &startup(USER)).await;
    let (state, text) = refusal(&mut beyond).await;
    assert!(state == "53300" && text.contains("your address"), "{state} {text}");
    drop((first, second, database));
    setup.settled().await;
    wait_for("both refusals are counted", || setup.figures.counts().errors == 2).await;
}

#[tokio::test]
async fn silent_clients_are_closed() {
    let setup = ProxySetup::start_with(&[], |settings| settings.handshake_max = Duration::from_millis(300)).await;
    for step in 0..4 {
        let mut tcp = setup.tcp().await;
        match step {
            0 => {}
            1 => tcp.write_all(&TLS_REQUEST[..5]).await.unwrap(),
            2 => tcp.write_all(&TLS_REQUEST).await.unwrap(),
            _ => {
                tcp.write_all(&TLS_REQUEST).await.unwrap();
                tcp.read_u8().await.unwrap();
                let mut client = setup.tls(tcp, &host(ID), &[]).await.unwrap();
                let end = tokio::time::timeout(PATIENCE, client.read_to_end(&mut Vec::new())).await;
                assert!(end.is_ok(), "step {step} stays open");
                continue;
            }
        }
        let end = tokio::time::timeout(PATIENCE, tcp.read_to_end(&mut Vec::new())).await;
        assert!(end.is_ok(), "step {step} stays open");
    }
    wait_for("all are counted", || setup.figures.counts().errors == 4).await;
}

#[tokio::test]
async fn a_database_that_does_not_wake_is_given_up() {
    let known = [(ID, Behind::Asleep)];
    let setup = ProxySetup::start_with(&known, |settings| settings.open_max = Duration::from_millis(200)).await;
    let mut client = setup.client(&host(ID), &startup(USER)).await;
    let (state, text) = refusal(&mut client).await;
    assert!(state == "57P03" && text.contains("did not wake"), "{state} {text}");

    // A client that goes away frees its seat at once, and a stop is told.
    let setup = ProxySetup::start(&known).await;
    let (gone, mut waiting) =
        (setup.client(&host(ID), &startup(USER)).await, setup.client(&host(ID), &startup(USER)).await);
    let figures = setup.figures.clone();
    wait_for("both wait", || figures.counts().active_connections == 2).await;
    assert_eq!(figures.counts().held_connections, 2);
    drop(gone);
    wait_for("one waits", || figures.counts().active_connections == 1).await;
    let scope = setup.scope.clone();
    let (left, told) = tokio::join!(scope.close(PATIENCE), refusal(&mut waiting));
    assert_eq!((left, told.0.as_str()), (0, "57P01"));
    let counts = figures.counts();
    assert_eq!((counts.held_connections, counts.failed_handshakes, counts.errors), (0, 1, 2));
    assert_eq!(counts.refused[RefusalReason::Stopping as usize], 1);
}

#[tokio::test]
async fn strangers_get_no_answer() {
    let setup = ProxySetup::start(&[]).await;
    for bytes in [&b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..], &[0xff; 64], &[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0]] {
        let mut tcp = setup.tcp().await;
        tcp.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let _ = tcp.read_to_end(&mut answer).await;
        assert!(answer.is_empty() || answer[0] == 0x15, "{answer:?}");
    }
}
