//! Tests of the DNS relay: a guest's questions reach the host's resolver and are answered, and no
//! input of a guest stops the relay.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use crate::net_support::{
    Guest, PATIENCE, SILENCE, World,
    zone::{self, Zone},
};
use hickory_proto::rr::RecordType;
use pandastack_host::net::{GATEWAY, NetSettings};
use pandastack_kit::Scope;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket},
};

const QUESTION: [u8; 17] = [0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1];

/// A resolver on the loopback address of the world's host. Over UDP it first sends an answer with a
/// wrong id, which must be ignored, and then the right one: the question with the answer bit and a
/// tail. Over TCP the tail is long.
async fn resolver(scope: &Scope) -> SocketAddr {
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = udp.local_addr().unwrap();
    let tcp = TcpListener::bind(address).await.unwrap();
    let token = scope.token();
    scope.start("resolver", async move {
        let mut buffer = [0; 2048];
        loop {
            tokio::select! {
                () = token.cancelled() => return,
                got = udp.recv_from(&mut buffer) => {
                    let (length, from) = got.unwrap();
                    let answer = answer_to(&buffer[..length], 100);
                    let mut forged = answer.clone();
                    forged[0] ^= 1;
                    udp.send_to(&forged, from).await.unwrap();
                    udp.send_to(&answer, from).await.unwrap();
                }
                got = tcp.accept() => {
                    let (mut stream, _) = got.unwrap();
                    let length = usize::from(stream.read_u16().await.unwrap());
                    stream.read_exact(&mut buffer[..length]).await.unwrap();
                    let answer = answer_to(&buffer[..length], 60_000);
                    stream.write_u16(answer.len() as u16).await.unwrap();
                    stream.write_all(&answer).await.unwrap();
                }
            }
        }
    });
    address
}

fn answer_to(question: &[u8], tail: usize) -> Vec<u8> {
    let mut answer = question.to_vec();
    answer[2] |= 0x80;
    answer.extend(std::iter::repeat_n(7, tail));
    answer
}

fn ask_udp(guest: &Guest, question: &[u8], patience: Duration) -> io::Result<Vec<u8>> {
    guest.netns.run(|| {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
        socket.set_read_timeout(Some(patience))?;
        socket.send_to(question, (GATEWAY, 53))?;
        let mut buffer = vec![0; 4096];
        let (length, from) = socket.recv_from(&mut buffer)?;
        assert_eq!(from, SocketAddr::from((GATEWAY, 53)));
        buffer.truncate(length);
        Ok(buffer)
    })?
}

fn ask_tcp(guest: &Guest, question: &[u8], times: usize) -> io::Result<Vec<u8>> {
    ask_tcp_within(guest, question, times, PATIENCE)
}

fn ask_tcp_within(guest: &Guest, question: &[u8], times: usize, patience: Duration) -> io::Result<Vec<u8>> {
    guest.netns.run(|| {
        let mut stream = TcpStream::connect_timeout(&(GATEWAY, 53).into(), PATIENCE)?;
        stream.set_read_timeout(Some(patience))?;
        let mut answer = Vec::new();
        for _ in 0..times {
            stream.write_all(&(question.len() as u16).to_be_bytes())?;
            stream.write_all(question)?;
            let mut length = [0; 2];
            stream.read_exact(&mut length)?;
            answer.resize(usize::from(u16::from_be_bytes(length)), 0);
            stream.read_exact(&mut answer)?;
        }
        Ok(answer)
    })?
}

#[test]
fn questions_are_answered_over_udp_and_tcp() {
    World::run(|world| async move {
        let resolver = resolver(&world.scope).await;
        // The first resolver does not answer, so the second gets the question.
        let resolvers = vec!["127.0.0.1:1".parse().unwrap(), resolver];
        let pool = world.pool(NetSettings { resolvers, ..world.settings() }).await;
        let slot = pool.take().await.unwrap();
        let guest = Arc::new(Guest::in_slot(&slot));
        let asker = guest.clone();
        let (answer, took) = world
            .block(move || {
                ask_udp(&asker, &QUESTION, PATIENCE).unwrap();
                let start = Instant::now();
                (ask_udp(&asker, &QUESTION, PATIENCE), start.elapsed())
            })
            .await;
        assert_eq!(answer.unwrap(), answer_to(&QUESTION, 100));
        eprintln!("one question over UDP: {took:?}");
        let asker = guest.clone();
        let answer = world.block(move || ask_tcp(&asker, &QUESTION, 3)).await;
        assert_eq!(answer.unwrap(), answer_to(&QUESTION, 60_000));
        pool.close().await.unwrap();
    });
}

#[test]
fn garbage_does_not_stop_the_relay() {
    World::run(|world| async move {
        let resolver = resolver(&world.scope).await;
        let pool = world.pool(NetSettings { resolvers: vec![resolver], ..world.settings() }).await;
        let slot = pool.take().await.unwrap();
        let guest = Arc::new(Guest::in_slot(&slot));
        let asker = guest.clone();
        let answer = world
            .block(move || {
                let short = Duration::from_millis(50);
                for garbage in [&[][..], &[0; 5], &[0xff; 64], &[0; 1400], &[0; 9000]] {
                    assert!(ask_udp(&asker, garbage, short).is_err());
                    assert!(ask_tcp_within(&asker, garbage, 1, SILENCE * 4).is_err());
                }
                // Silent connections, more than are served at a time, and a flood of questions.
                let silent: Vec<_> =
                    (0..40).map(|_| asker.netns.connect((GATEWAY, 53).into(), PATIENCE).unwrap()).collect();
                asker
                    .netns
                    .run(|| {
                        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
                        for _ in 0..2000 {
                            let _ = socket.send_to(&QUESTION, (GATEWAY, 53));
                        }
                    })
                    .unwrap();
                // A question is lost while the flood fills the socket's buffer, and is asked again
                // as clients do.
                let mut tries = (0..60).map(|_| ask_udp(&asker, &QUESTION, SILENCE));
                let answer = tries.find_map(Result::ok);
                drop(silent);
                answer
            })
            .await;
        assert_eq!(answer.unwrap(), answer_to(&QUESTION, 100));
        pool.close().await.unwrap();
    });
}

/// Messages that a resolver may act on although they are not ordinary queries, each with a label
/// and the response code.
fn forbidden() -> Vec<(&'static str, Vec<u8>, u8)> {
    let plain = zone::question("a.test.", RecordType::SOA);
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = plain.clone();
        change(&mut bytes);
        bytes
    };
    let class = plain.len() - 1;
    vec![
        ("update", changed(&|bytes| bytes[2] |= 5 << 3), 4),
        ("notify", changed(&|bytes| bytes[2] |= 4 << 3), 4),
        ("AXFR", zone::question("a.test.", RecordType::AXFR), 5),
        ("IXFR", zone::question("a.test.", RecordType::IXFR), 5),
        ("CHAOS", changed(&|bytes| bytes[class] = 3), 5),
        (
            "two questions",
            changed(&|bytes| {
                let question = bytes[12..].to_vec();
                bytes.extend(question);
                bytes[5] = 2;
            }),
            1,
        ),
        ("a tail", changed(&|bytes| bytes.extend(b"tail")), 1),
    ]
}

#[test]
fn only_ordinary_queries_reach_the_resolver() {
    World::run(|world| async move {
        let (resolver, asked) = Zone::default().with("a.test", &["203.0.113.7"]).serve(&world.scope).await;
        let pool = world.pool(NetSettings { resolvers: vec![resolver], ..world.settings() }).await;
        let slot = pool.take().await.unwrap();
        let guest = Arc::new(Guest::in_slot(&slot));
        let asker = guest.clone();
        world
            .block(move || {
                for (what, message, code) in forbidden() {
                    for answer in [ask_udp(&asker, &message, PATIENCE), ask_tcp(&asker, &message, 1)] {
                        let answer = answer.unwrap_or_else(|error| panic!("{what}: {error}"));
                        assert_eq!((&answer[..2], answer[3] & 0xf), (&message[..2], code), "{what}");
                    }
                }
            })
            .await;
        assert_eq!(asked.load(Ordering::Relaxed), 0, "none of these may reach a resolver");
        let asker = guest.clone();
        let answer = world.block(move || asker.resolve("a.test")).await;
        assert_eq!(answer, zone::told(&["203.0.113.7"]), "an ordinary query still passes");
        pool.close().await.unwrap();
    });
}

#[test]
fn an_unreachable_resolver_is_an_answer() {
    World::run(|world| async move {
        let pool =
            world.pool(NetSettings { resolvers: vec!["127.0.0.1:1".parse().unwrap()], ..world.settings() }).await;
        let slot = pool.take().await.unwrap();
        let guest = Arc::new(Guest::in_slot(&slot));
        for ask in [|guest: &Guest| ask_udp(guest, &QUESTION, PATIENCE), |guest: &Guest| ask_tcp(guest, &QUESTION, 1)] {
            let asker = guest.clone();
            let answer = world.block(move || ask(&asker)).await.unwrap();
            assert_eq!(answer[..2], QUESTION[..2]);
            assert_eq!(answer[3] & 0xf, 2, "server failure");
        }
        pool.close().await.unwrap();
    });
}

#[test]
fn a_slot_given_back_leaves_no_task() {
    World::run(|world| async move {
        let resolver = resolver(&world.scope).await;
        let pool = world.pool(NetSettings { ready: 0, resolvers: vec![resolver], ..world.settings() }).await;
        let before = world.scope.tasks();
        let slot = pool.take().await.unwrap();
        assert_eq!(world.scope.tasks(), before + 1, "one task serves a slot");
        pool.give_back(slot).await.unwrap();
        assert_eq!(world.scope.tasks(), before);
        pool.close().await.unwrap();
    });
}
