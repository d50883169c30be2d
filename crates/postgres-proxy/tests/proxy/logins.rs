//! Clients that do not log in: they are few, they are cut off, and others get in meanwhile.

use std::time::Duration;

use pandastack_postgres_proxy::{ProxySettings, QueryState, RefusalReason};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinSet,
};
use tokio_rustls::client::TlsStream;

use crate::setup::{Behind, ID, ProxySetup, TLS_REQUEST, host, refusal, startup, wait_for};

const USER: &[(&str, &str)] = &[("user", "a")];
/// AuthenticationCleartextPassword.
const PASSWORD_REQUEST: &[u8] = b"R\0\0\0\x08\0\0\0\x03";
const AUTHENTICATED: &[u8] = b"R\0\0\0\x08\0\0\0\0";
const READY: &[u8] = b"Z\0\0\0\x05I";
const QUERY: &[u8] = b"Q\0\0\0\x05\0";

async fn setup(change: impl FnOnce(&mut ProxySettings)) -> (ProxySetup, TcpListener) {
    let database = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let behind = Behind::At(database.local_addr().unwrap());
    (ProxySetup::start_with(&[(ID, behind)], change).await, database)
}

/// A client that was asked for its password, and the database's end of its tunnel.
async fn half_open(setup: &ProxySetup, database: &TcpListener) -> (TlsStream<TcpStream>, TcpStream) {
    let client = setup.client(&host(ID), &startup(USER)).await;
    asked_for_password(client, database).await
}

async fn asked_for_password(
    mut client: TlsStream<TcpStream>,
    database: &TcpListener,
) -> (TlsStream<TcpStream>, TcpStream) {
    let (mut backend, _) = database.accept().await.unwrap();
    backend.read_exact(&mut vec![0; startup(USER).len()]).await.unwrap();
    backend.write_all(PASSWORD_REQUEST).await.unwrap();
    client.read_exact(&mut [0; PASSWORD_REQUEST.len()]).await.unwrap();
    (client, backend)
}

/// Ends a login well.
async fn log_in(client: &mut TlsStream<TcpStream>, backend: &mut TcpStream) {
    backend.write_all(AUTHENTICATED).await.unwrap();
    client.read_exact(&mut [0; AUTHENTICATED.len()]).await.unwrap();
}

/// A client of another address.
async fn client_of(setup: &ProxySetup, address: &str) -> TlsStream<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{address}:0").parse().unwrap()).unwrap();
    let mut tcp = socket.connect(setup.address).await.unwrap();
    tcp.write_all(&TLS_REQUEST).await.unwrap();
    assert_eq!(tcp.read_u8().await.unwrap(), b'S');
    let mut client = setup.tls(tcp, &host(ID), &[]).await.unwrap();
    client.write_all(&startup(USER)).await.unwrap();
    client
}

#[tokio::test]
async fn half_open_logins_do_not_lock_others_out() {
    let (setup, database) = setup(|settings| {
        (settings.tunnels.logins_per_address, settings.tunnels.logins_per_database) = (2, 3);
        settings.login_wait_max = Duration::from_millis(300);
    })
    .await;
    let first = half_open(&setup, &database).await;
    let mut second = half_open(&setup, &database).await;
    let mut beyond = setup.client(&host(ID), &startup(USER)).await;
    let (state, text) = refusal(&mut beyond).await;
    assert!(state == "53300" && text.contains("logging in") && text.contains("try again"), "{state} {text}");
    assert_eq!(setup.journal.asked.lock().unwrap().len(), 2, "the database was not bothered");

    // The owner, from another address; then the database has its share.
    let (mut owner, mut owner_backend) = asked_for_password(client_of(&setup, "127.0.0.2").await, &database).await;
    assert_eq!(refusal(&mut client_of(&setup, "127.0.0.3").await).await.0, "53300");
    log_in(&mut owner, &mut owner_backend).await;
    // A login that succeeded and one that was given up leave their seats.
    let third = asked_for_password(client_of(&setup, "127.0.0.3").await, &database).await;
    log_in(&mut second.0, &mut second.1).await;
    let fourth = half_open(&setup, &database).await;
    drop(first);
    wait_for("the tunnel ends", || setup.figures.counts().active_connections == 4).await;
    let fifth = half_open(&setup, &database).await;
    drop((beyond, second, third, fourth, fifth, owner, owner_backend));
    setup.settled().await;
    let refused = || setup.figures.counts().refused[RefusalReason::TooMany as usize];
    wait_for("both refusals are counted", || refused() == 2).await;
}

#[tokio::test]
async fn a_burst_is_served_in_turns() {
    const CLIENTS: usize = 20;
    let (setup, database) = setup(|settings| settings.tunnels.logins_per_address = 3).await;
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let mut client = setup.client(&host(ID), &startup(USER)).await;
        clients.spawn(async move {
            client.read_exact(&mut [0; AUTHENTICATED.len()]).await.unwrap();
            client
        });
    }
    let mut backends = Vec::new();
    while backends.len() < CLIENTS {
        let (mut backend, _) = database.accept().await.unwrap();
        backend.write_all(AUTHENTICATED).await.unwrap();
        backends.push(backend);
    }
    let clients = clients.join_all().await;
    assert_eq!((clients.len(), setup.figures.counts().active_connections), (CLIENTS, CLIENTS as u64));
}

#[tokio::test]
async fn a_login_that_takes_too_long_is_told() {
    let (setup, database) = setup(|settings| settings.login_max = Duration::from_secs(1)).await;
    let (mut client, mut backend) = half_open(&setup, &database).await;
    log_in(&mut client, &mut backend).await;
    let (mut slow, mut slow_backend) = half_open(&setup, &database).await;
    let (state, text) = refusal(&mut slow).await;
    assert!(state == "57014" && text.contains("login took longer than 1 seconds"), "{state} {text}");
    drop(slow);
    assert_eq!(slow_backend.read(&mut [0]).await.unwrap_or_default(), 0, "the database is rid of it");

    // One that was quick has no deadline any more, although its session is not ready yet.
    backend.write_all(READY).await.unwrap();
    client.read_exact(&mut [0; READY.len()]).await.unwrap();
    client.write_all(QUERY).await.unwrap();
    backend.read_exact(&mut [0; QUERY.len()]).await.unwrap();
    wait_for("the slow one ends", || setup.figures.counts().active_connections == 1).await;
    let counts = setup.figures.counts();
    assert_eq!((counts.failed_handshakes, counts.errors), (1, 1));
    assert_eq!(*setup.journal.states.lock().unwrap(), [QueryState::Idle, QueryState::Running]);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off_too() {
    let (setup, database) = setup(|settings| settings.login_max = Duration::from_millis(300)).await;
    let _client = setup.client(&host(ID), &startup(USER)).await;
    let (mut backend, _) = database.accept().await.unwrap();
    // Notices, until nobody takes them.
    let notice = [&b"N\0\x01\0\0"[..], &vec![b'x'; 0x1_0000 - 4]].concat();
    while backend.write_all(&notice).await.is_ok() {}
    setup.settled().await;
    wait_for("it is counted", || setup.figures.counts().failed_handshakes == 1).await;
}
