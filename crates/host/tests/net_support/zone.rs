//! A resolver on the loopback address of the world's host that serves a test's names, and the
//! guest's functions to query it.

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hickory_proto::{
    op::{Message, MessageType, OpCode, Query, ResponseCode},
    rr::{
        Name, RData, Record, RecordType,
        rdata::{A, CNAME},
    },
};
use pandastack_host::net::GATEWAY;
use pandastack_kit::Scope;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket},
};

use super::Guest;

/// Long enough for an answer that needs a process or two on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// The records of a name: addresses, or an alias.
#[derive(Clone)]
pub enum Entry {
    Addresses(Vec<Ipv4Addr>),
    Alias(&'static str),
}

/// The names of a test.
#[derive(Clone, Default)]
pub struct Zone {
    pub names: BTreeMap<&'static str, Entry>,
    pub ttl: u32,
}

impl Zone {
    pub fn with(mut self, name: &'static str, addresses: &[&str]) -> Zone {
        let parsed = addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.names.insert(name, Entry::Addresses(parsed));
        self
    }

    pub fn with_alias(mut self, name: &'static str, target: &'static str) -> Zone {
        self.names.insert(name, Entry::Alias(target));
        self
    }

    /// Starts serving. Returns the address and the counter of questions.
    pub async fn serve(self, scope: &Scope) -> (SocketAddr, Arc<AtomicUsize>) {
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = udp.local_addr().unwrap();
        let tcp = TcpListener::bind(address).await.unwrap();
        let token = scope.token();
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = asked.clone();
        scope.start("zone", async move {
            let mut buffer = [0; 2048];
            loop {
                tokio::select! {
                    () = token.cancelled() => return,
                    got = udp.recv_from(&mut buffer) => {
                        let (length, from) = got.unwrap();
                        counter.fetch_add(1, Ordering::Relaxed);
                        udp.send_to(&self.answer(&buffer[..length]), from).await.unwrap();
                    }
                    got = tcp.accept() => {
                        let (mut stream, _) = got.unwrap();
                        let length = usize::from(stream.read_u16().await.unwrap());
                        stream.read_exact(&mut buffer[..length]).await.unwrap();
                        counter.fetch_add(1, Ordering::Relaxed);
                        let answer = self.answer(&buffer[..length]);
                        stream.write_u16(answer.len() as u16).await.unwrap();
                        stream.write_all(&answer).await.unwrap();
                    }
                }
            }
        });
        (address, asked)
    }

    fn answer(&self, question: &[u8]) -> Vec<u8> {
        let question = Message::from_vec(question).unwrap();
        let query = question.queries[0].clone();
        let mut answer = Message::response(question.metadata.id, OpCode::Query);
        let mut at = query.name.to_ascii().trim_end_matches('.').to_lowercase();
        if !self.names.contains_key(at.as_str()) {
            answer.metadata.response_code = ResponseCode::NXDomain;
        }
        answer.add_query(query);
        while let Some(entry) = self.names.get(at.as_str()) {
            let owner = Name::from_ascii(format!("{at}.")).unwrap();
            match entry {
                Entry::Addresses(addresses) => {
                    let records =
                        addresses.iter().map(|it| Record::from_rdata(owner.clone(), self.ttl, RData::A(A(*it))));
                    answer.add_answers(records);
                    break;
                }
                Entry::Alias(target) => {
                    let target_name = CNAME(Name::from_ascii(format!("{target}.")).unwrap());
                    answer.add_answer(Record::from_rdata(owner, self.ttl, RData::CNAME(target_name)));
                    at = (*target).to_owned();
                }
            }
        }
        answer.to_vec().unwrap()
    }
}

/// The answer that a guest received: the response code and the addresses.
pub type DnsAnswer = (ResponseCode, Vec<Ipv4Addr>);

/// The answer for a name that is not on the list.
pub fn unlisted() -> DnsAnswer {
    (ResponseCode::NXDomain, Vec::new())
}

/// The answer for a name with these addresses.
pub fn told(addresses: &[&str]) -> DnsAnswer {
    (ResponseCode::NoError, addresses.iter().map(|address| address.parse().unwrap()).collect())
}

pub fn question(name: &str, kind: RecordType) -> Vec<u8> {
    let mut message = Message::new(4711, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message.to_vec().unwrap()
}

fn read(bytes: &[u8]) -> DnsAnswer {
    let message = Message::from_vec(bytes).unwrap();
    assert_eq!(message.metadata.id, 4711);
    let address = |record: &Record| match record.data {
        RData::A(A(address)) => Some(address),
        _ => None,
    };
    (message.metadata.response_code, message.answers.iter().filter_map(address).collect())
}

impl Guest {
    /// Asks the gateway over UDP.
    pub fn resolve(&self, name: &str) -> DnsAnswer {
        self.resolve_as(name, RecordType::A)
    }

    pub fn resolve_as(&self, name: &str, kind: RecordType) -> DnsAnswer {
        let answer = self.netns.run(|| -> io::Result<Vec<u8>> {
            let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.send_to(&question(name, kind), (GATEWAY, 53))?;
            let mut buffer = vec![0; 4096];
            let length = socket.recv(&mut buffer)?;
            buffer.truncate(length);
            Ok(buffer)
        });
        read(&answer.unwrap().unwrap())
    }

    /// Asks the gateway over TCP.
    pub fn resolve_by_stream(&self, name: &str) -> DnsAnswer {
        let answer = self.netns.run(|| -> io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect_timeout(&(GATEWAY, 53).into(), PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let question = question(name, RecordType::A);
            stream.write_all(&[&(question.len() as u16).to_be_bytes(), &question[..]].concat())?;
            let mut length = [0; 2];
            stream.read_exact(&mut length)?;
            let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
            stream.read_exact(&mut answer)?;
            Ok(answer)
        });
        read(&answer.unwrap().unwrap())
    }
}
