//! The DNS relay of one slot. It listens on the gateway's address in the slot's namespace and asks
//! resolvers from the host's namespace, because a guest often cannot reach them. It forwards only
//! ordinary queries (`query`). A restricted guest gets answers only for listed names, once their
//! addresses are open (`filter`, `egress`). One task owns all questions. Stores no message.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use pandastack_kit::Scope;
use pandastack_sys::netns::Netns;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    egress::{EgressGate, NameAdmission},
    filter::{AnswerFilter, DnsQuestion, DnsTransport},
    limits::{
        DNS_DEADLINE, DNS_QUESTION_BYTES_MAX, DNS_QUESTIONS_PER_CONNECTION, DNS_TCP_MAX, DNS_TRY,
        DNS_UDP_ANSWER_BYTES_MAX, DNS_UDP_MAX,
    },
    policy::GATEWAY,
    query::{ANSWER_BIT, BadQuery, DnsQuery, HEADER_BYTES, check_query},
};

const PORT: u16 = 53;
/// Pause after a failed read or accept: the kernel lacked memory or descriptors.
const TROUBLE_PAUSE: Duration = Duration::from_millis(50);

/// A running relay. Dropping it ends its task soon. `stop` also waits for the end.
#[derive(Debug)]
pub struct DnsRelay {
    end: DropGuard,
    task: JoinHandle<()>,
}

impl DnsRelay {
    /// Binds inside the namespace and starts answering.
    pub fn start(
        netns: &Netns,
        resolvers: Arc<[SocketAddr]>,
        gate: Arc<EgressGate>,
        scope: &Scope,
    ) -> io::Result<DnsRelay> {
        let address = SocketAddr::from((GATEWAY, PORT));
        let udp = UdpSocket::from_std(netns.bind_udp(address)?)?;
        let tcp = TcpListener::from_std(netns.listen_tcp(address)?)?;
        let token = scope.token().child_token();
        let task =
            scope.start("dns relay", serve(DnsSockets { udp, tcp }, DnsResponder { resolvers, gate }, token.clone()));
        Ok(DnsRelay { end: token.drop_guard(), task })
    }

    /// Ends the relay. Its sockets are closed when this returns.
    pub async fn stop(self) {
        drop(self.end);
        let _ = self.task.await;
    }
}

/// Reads the resolvers from a `resolv.conf`. Skips addresses with a scope, because a scope is valid
/// on one link only.
pub fn resolvers(resolv_conf: &str) -> Vec<SocketAddr> {
    let mut found: Vec<SocketAddr> = Vec::new();
    for line in resolv_conf.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some("nameserver") {
            continue;
        }
        if let Some(Ok(address)) = words.next().map(str::parse) {
            found.push(SocketAddr::new(address, PORT));
        }
    }
    found
}

struct DnsSockets {
    udp: UdpSocket,
    tcp: TcpListener,
}

async fn serve(doors: DnsSockets, desk: DnsResponder, token: CancellationToken) {
    let DnsSockets { udp, tcp } = &doors;
    let desk = &desk;
    let mut questions: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
    let mut connections: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
    // The extra byte shows that a question was too long.
    let mut buffer = vec![0; DNS_QUESTION_BYTES_MAX + 1];
    loop {
        tokio::select! {
            () = token.cancelled() => return,
            Some(()) = questions.next() => {}
            Some(()) = connections.next() => {}
            got = udp.recv_from(&mut buffer), if questions.len() < DNS_UDP_MAX => match got {
                Ok((length, from)) => {
                    let checked = check_query(&buffer[..length]);
                    questions.push(answer_datagram(udp, from, checked, desk).boxed());
                }
                Err(_) => tokio::time::sleep(TROUBLE_PAUSE).await,
            },
            got = tcp.accept(), if connections.len() < DNS_TCP_MAX => match got {
                // Any error on a guest's connection closes that connection.
                Ok((guest, _)) => connections.push(answer_connection(guest, desk).map(drop).boxed()),
                Err(_) => tokio::time::sleep(TROUBLE_PAUSE).await,
            },
        }
    }
}

/// Answers questions, with the resolvers and the slot's gate.
struct DnsResponder {
    resolvers: Arc<[SocketAddr]>,
    gate: Arc<EgressGate>,
}

impl DnsResponder {
    /// Returns the answer to a guest's message, or `None` if the message gets no answer.
    async fn answer(&self, checked: Result<DnsQuery, BadQuery>, way: DnsTransport) -> Option<Vec<u8>> {
        let query = match checked {
            Ok(query) => query,
            Err(bad) => return bad.reply(),
        };
        if !self.gate.is_open() {
            return Some(self.answer_restricted(&DnsQuestion::of(&query), way).await);
        }
        let answer = self.ask(query.bytes(), way).await;
        Some(answer.unwrap_or_else(|| query.into_failure()))
    }

    async fn answer_restricted(&self, asked: &DnsQuestion, way: DnsTransport) -> Vec<u8> {
        let Some(name) = asked.name().filter(|name| self.gate.names(name)) else {
            self.gate.denied(asked.shown());
            return asked.unlisted(way);
        };
        let mut id = [0; 2];
        if getrandom::fill(&mut id).is_err() {
            return asked.failure(way);
        }
        let Some(question) = asked.question(u16::from_be_bytes(id)) else { return asked.nothing(way) };
        let sieve = AnswerFilter { permits: |address| self.gate.permits(address), ttl_max: self.gate.ttl_max() };
        let answer = self.ask(&question, way).await;
        let Some(Ok(filtered)) = answer.map(|answer| asked.filter(&answer, &sieve)) else { return asked.failure(way) };
        for address in &filtered.stripped {
            self.gate.denied(format!("{name} ({address})"));
        }
        match self.gate.admit(name, &filtered.found).await {
            Ok(NameAdmission::Open) => asked.answer(&filtered, way),
            Ok(NameAdmission::Unlisted) => asked.unlisted(way),
            Ok(NameAdmission::Refused) => asked.failure(way),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "could not allow the addresses of a name");
                asked.failure(way)
            }
        }
    }

    /// Asks the resolvers in turn. Returns `None` if none of them answers in time.
    async fn ask(&self, question: &[u8], way: DnsTransport) -> Option<Vec<u8>> {
        let asked = timeout(DNS_DEADLINE, async {
            for resolver in &*self.resolvers {
                let answer = match way {
                    DnsTransport::Datagram => timeout(DNS_TRY, ask_datagram(*resolver, question)).await,
                    DnsTransport::Stream => timeout(DNS_TRY, ask_stream(*resolver, question)).await,
                };
                if let Ok(Ok(answer)) = answer {
                    return Some(answer);
                }
            }
            None
        });
        asked.await.ok().flatten()
    }
}

async fn answer_datagram(guest: &UdpSocket, to: SocketAddr, checked: Result<DnsQuery, BadQuery>, desk: &DnsResponder) {
    if let Some(answer) = desk.answer(checked, DnsTransport::Datagram).await {
        // The guest may be gone, so errors are ignored.
        let _ = guest.send_to(&answer, to).await;
    }
}

/// Uses a new socket for each question: a random port makes forged answers hard, and `connect`
/// drops datagrams from other senders.
async fn ask_datagram(resolver: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let socket = match resolver {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?,
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).await?,
    };
    socket.connect(resolver).await?;
    socket.send(question).await?;
    let mut buffer = vec![0; DNS_UDP_ANSWER_BYTES_MAX];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if is_answer(question, &buffer[..length]) {
            buffer.truncate(length);
            return Ok(buffer);
        }
    }
}

/// Returns whether a message is an answer and has the question's id.
fn is_answer(question: &[u8], bytes: &[u8]) -> bool {
    bytes.len() >= HEADER_BYTES && bytes[..2] == question[..2] && bytes[2] & ANSWER_BIT != 0
}

async fn answer_connection(mut guest: TcpStream, desk: &DnsResponder) -> io::Result<()> {
    for _ in 0..DNS_QUESTIONS_PER_CONNECTION {
        let bytes = timeout(DNS_DEADLINE, read_message(&mut guest, DNS_QUESTION_BYTES_MAX)).await??;
        let answer = desk.answer(check_query(&bytes), DnsTransport::Stream).await.ok_or(io::ErrorKind::InvalidData)?;
        timeout(DNS_DEADLINE, write_message(&mut guest, &answer)).await??;
    }
    Ok(())
}

async fn ask_stream(resolver: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(resolver).await?;
    write_message(&mut stream, question).await?;
    let answer = read_message(&mut stream, usize::from(u16::MAX)).await?;
    if is_answer(question, &answer) { Ok(answer) } else { Err(io::ErrorKind::InvalidData.into()) }
}

async fn read_message(stream: &mut TcpStream, bytes_max: usize) -> io::Result<Vec<u8>> {
    let length = usize::from(stream.read_u16().await?);
    if length > bytes_max {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn write_message(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let length = u16::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidData)?;
    // One write, because some servers treat a length that arrives alone as a broken message.
    stream.write_all(&[&length.to_be_bytes(), bytes].concat()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolv_conf_is_read_leniently() {
        let text = "# nameserver 1.1.1.1\nsearch x\nnameserver 10.0.0.53\nnameserver\nnameserver \
            fe80::1%eth0\nnameserver ::1 x\n";
        assert_eq!(resolvers(text), ["10.0.0.53:53".parse().unwrap(), "[::1]:53".parse().unwrap()]);
        assert!(resolvers("").is_empty());
    }

    #[test]
    fn only_the_same_id_answers() {
        let question = [7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1];
        assert!(is_answer(&question, &[7, 9, 0x81, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
        assert!(!is_answer(&question, &[7, 8, 0x81, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
        assert!(!is_answer(&question, &[7, 9, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
        assert!(!is_answer(&question, &[7, 9, 0x81]));
        let failure = check_query(&question).unwrap().into_failure();
        assert!(is_answer(&question, &failure));
        assert_eq!(failure[3] & 0xf, 2);
    }
}
