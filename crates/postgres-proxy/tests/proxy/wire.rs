//! With a TLS client of our own, and a database that we play.

use std::time::{Duration, Instant};

use pandastack_postgres_proxy::{OpenPurpose, QueryState};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::client::TlsStream;

use crate::setup::{Behind, GSS_REQUEST, ID, OTHER_ID, ProxySetup, TLS_REQUEST, host, refusal, startup, wait_for};

const USER: &[(&str, &str)] = &[("user", "a")];
/// AuthenticationOk, a key, ReadyForQuery.
const LOGIN: &[u8] = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x09\x01\x02\x03\x04Z\0\0\0\x05I";
const THEIR_KEY: [u8; 8] = [0, 0, 0, 9, 1, 2, 3, 4];

/// A client and the database's end of its tunnel, logged in. Returns the client's cancel key too.
async fn tunnel(setup: &ProxySetup, id: &str, database: &TcpListener) -> (TlsStream<TcpStream>, TcpStream, [u8; 8]) {
    let mut client = setup.client(&host(id), &startup(USER)).await;
    let (mut backend, _) = database.accept().await.unwrap();
    let mut sent = vec![0; startup(USER).len()];
    backend.read_exact(&mut sent).await.unwrap();
    assert_eq!(sent, startup(USER));
    backend.write_all(LOGIN).await.unwrap();
    let mut login = vec![0; LOGIN.len()];
    client.read_exact(&mut login).await.unwrap();
    (client, backend, login[14..22].try_into().unwrap())
}

#[tokio::test]
async fn bytes_and_wakes_are_counted() {
    let (database, Behind::At(address)) = played().await else { unreachable!() };
    let setup = ProxySetup::start(&[(ID, Behind::WokenAt(address))]).await;
    let (mut client, mut backend, _) = tunnel(&setup, ID, &database).await;
    client.write_all(&[b'X'; 1000]).await.unwrap();
    backend.read_exact(&mut [0; 1000]).await.unwrap();
    let counts = || setup.figures.counts();
    wait_for("what was written is counted", || counts().bytes == [1000, LOGIN.len() as u64]).await;
    assert_eq!((counts().wakes, counts().held_connections, counts().active_connections), (1, 0, 1));
    drop((client, backend));
    setup.settled().await;
}

fn cancel(key: [u8; 8]) -> Vec<u8> {
    [&[0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e][..], &key].concat()
}

async fn played() -> (TcpListener, Behind) {
    let database = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = database.local_addr().unwrap();
    (database, Behind::At(address))
}

#[tokio::test]
async fn direct_tls_needs_its_alpn() {
    let (database, behind) = played().await;
    let setup = ProxySetup::start(&[(ID, behind)]).await;
    let mut client = setup.tls(setup.tcp().await, &host(ID), &[b"postgresql"]).await.unwrap();
    assert_eq!(client.get_ref().1.alpn_protocol(), Some(&b"postgresql"[..]));
    client.write_all(&startup(USER)).await.unwrap();
    let (mut backend, _) = database.accept().await.unwrap();
    backend.write_all(LOGIN).await.unwrap();
    assert_eq!(client.read_u8().await.unwrap(), b'R');

    let mut client = setup.tls(setup.tcp().await, &host(ID), &[]).await.unwrap();
    let (state, text) = refusal(&mut client).await;
    assert!(state == "08P01" && text.contains("ALPN"), "{state} {text}");
    assert!(setup.tls(setup.tcp().await, &host(ID), &[b"h2"]).await.is_err());
}

#[tokio::test]
async fn gss_is_refused_and_the_client_goes_on() {
    let (_database, behind) = played().await;
    let setup = ProxySetup::start(&[(ID, behind)]).await;
    let mut tcp = setup.tcp().await;
    tcp.write_all(&GSS_REQUEST).await.unwrap();
    assert_eq!(tcp.read_u8().await.unwrap(), b'N');
    tcp.write_all(&TLS_REQUEST).await.unwrap();
    assert_eq!(tcp.read_u8().await.unwrap(), b'S');
    assert!(setup.tls(tcp, &host(ID), &[]).await.is_ok());

    let mut tcp = setup.tcp().await;
    tcp.write_all(&GSS_REQUEST.repeat(10)).await.unwrap();
    assert_eq!([tcp.read_u32().await.unwrap()], [u32::from_be_bytes(*b"NNNN")]);
    assert_eq!(refusal(&mut tcp).await.0, "08P01");
}

#[tokio::test]
async fn cancels_find_their_database_by_key() {
    let ((first, one), (second, two)) = (played().await, played().await);
    let setup = ProxySetup::start(&[(ID, one), (OTHER_ID, two)]).await;
    let (client, _backend, key) = tunnel(&setup, ID, &first).await;
    let (_other, _other_backend, other_key) = tunnel(&setup, OTHER_ID, &second).await;
    assert!(key != other_key && key != THEIR_KEY);

    // Plain, as most drivers do.
    let mut tcp = setup.tcp().await;
    tcp.write_all(&cancel(other_key)).await.unwrap();
    let (mut backend, _) = second.accept().await.unwrap();
    let mut got = [0; 16];
    backend.read_exact(&mut got).await.unwrap();
    assert_eq!(got, cancel(THEIR_KEY)[..]);
    drop(backend);
    assert_eq!(tcp.read(&mut [0]).await.unwrap(), 0, "closed after the database did");

    // Under TLS, as libpq 17 does.
    let mut asking = setup.client(&host(ID), &cancel(key)).await;
    let (mut backend, _) = first.accept().await.unwrap();
    backend.read_exact(&mut got).await.unwrap();
    assert_eq!(got, cancel(THEIR_KEY)[..]);
    drop(backend);
    assert_eq!(asking.read(&mut [0]).await.unwrap(), 0);

    // Another name, an unknown key and an ended tunnel reach nobody.
    let mut wrong = setup.client(&host(OTHER_ID), &cancel(key)).await;
    assert_eq!(wrong.read(&mut [0]).await.unwrap(), 0);
    let mut unknown = setup.tcp().await;
    unknown.write_all(&cancel(THEIR_KEY)).await.unwrap();
    assert_eq!(unknown.read(&mut [0]).await.unwrap(), 0);
    drop((client, _backend));
    wait_for("the tunnel ends", || setup.figures.counts().active_connections == 1).await;
    let mut late = setup.tcp().await;
    late.write_all(&cancel(key)).await.unwrap();
    assert_eq!(late.read(&mut [0]).await.unwrap(), 0);
    let asked = setup.journal.asked.lock().unwrap().clone();
    assert_eq!(asked.iter().filter(|ask| ask.purpose == OpenPurpose::Cancel).count(), 2);
}

#[tokio::test]
async fn each_side_may_end_first() {
    let (database, behind) = played().await;
    let setup = ProxySetup::start(&[(ID, behind)]).await;
    // The client ends its side, and still gets the answer.
    let (mut client, mut backend, _) = tunnel(&setup, ID, &database).await;
    client.write_all(b"Q\0\0\0\x05\0").await.unwrap();
    client.shutdown().await.unwrap();
    let mut query = Vec::new();
    backend.read_to_end(&mut query).await.unwrap();
    assert_eq!(query, b"Q\0\0\0\x05\0");
    backend.write_all(b"C\0\0\0\x04Z\0\0\0\x05I").await.unwrap();
    drop(backend);
    let mut reply = Vec::new();
    client.read_to_end(&mut reply).await.unwrap();
    assert_eq!(reply, b"C\0\0\0\x04Z\0\0\0\x05I");
    setup.settled().await;
    let states = setup.journal.states.lock().unwrap().clone();
    assert_eq!(states, [QueryState::Idle, QueryState::Running, QueryState::Idle]);

    // The database ends, and the client is not waited for.
    let (_client, backend, _) = tunnel(&setup, ID, &database).await;
    drop(backend);
    setup.settled().await;
    // The client vanishes.
    let (client, mut backend, _) = tunnel(&setup, ID, &database).await;
    drop(client);
    assert_eq!(backend.read(&mut [0]).await.unwrap_or_default(), 0);
    drop(backend);
    setup.settled().await;
}

/// Figures of a release build: `cargo test --release -- --ignored --nocapture throughput`.
#[tokio::test]
#[ignore = "measures"]
async fn throughput_and_round_trip() {
    let (database, behind) = played().await;
    let setup = ProxySetup::start(&[(ID, behind)]).await;
    let (mut client, mut backend, _) = tunnel(&setup, ID, &database).await;
    for row_bytes in [40_usize, 1000, 60_000] {
        let row = [&b"D"[..], &u32::try_from(row_bytes + 4).unwrap().to_be_bytes(), &vec![7; row_bytes]].concat();
        let rows = row.repeat((256 * 1024_usize).div_ceil(row.len()));
        let total = 1_000_000_000_usize.div_ceil(rows.len());
        let expected = total * rows.len();
        let begin = Instant::now();
        let sending = async {
            for _ in 0..total {
                backend.write_all(&rows).await.unwrap();
            }
        };
        let receiving = async {
            let (mut got, mut buffer) = (0, vec![0; 256 * 1024]);
            while got < expected {
                got += client.read(&mut buffer).await.unwrap();
            }
        };
        tokio::join!(sending, receiving);
        let seconds = begin.elapsed().as_secs_f64();
        println!(
            "rows of {row_bytes}: {:.0} MB/s with client and database on the same thread",
            expected as f64 / seconds / 1e6
        );
    }
    let mut trips: Vec<Duration> = Vec::new();
    for _ in 0..2000 {
        let begin = Instant::now();
        client.write_all(b"Q\0\0\0\x05\0").await.unwrap();
        backend.read_exact(&mut [0; 6]).await.unwrap();
        backend.write_all(b"Z\0\0\0\x05I").await.unwrap();
        client.read_exact(&mut [0; 6]).await.unwrap();
        trips.push(begin.elapsed());
    }
    trips.sort();
    println!("round trip: median {:?}, p99 {:?}", trips[1000], trips[1980]);
}
