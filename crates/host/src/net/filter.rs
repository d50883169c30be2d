//! Owns what a restricted guest may ask of DNS, and what of an answer it is told. Pure: bytes in,
//! bytes out. Never forwards a byte as it came: questions to resolvers and answers to guests are
//! written anew from what was understood, so that neither side can say more through the relay than
//! a question and its answer.
//!
//! ```text
//! guest's bytes --check_query--> Asked --question--> resolver's bytes --filter--> Filtered --encode--> guest's bytes
//! ```

use std::{net::Ipv4Addr, time::Duration};

use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, Query, ResponseCode},
    rr::{DNSClass, Name, RData, Record, RecordType},
    serialize::binary::{BinEncodable, BinEncoder},
};

use super::{
    limits::{ADDRESSES_PER_ANSWER, ALIASES_PER_ANSWER},
    query::DnsQuery,
};

/// What a client takes over UDP if it does not say.
const PLAIN_UDP_BYTES: u16 = 512;
/// What we offer and accept over UDP: fits every link without fragments.
const UDP_BYTES_MAX: u16 = 1232;
const TCP_BYTES_MAX: u16 = u16::MAX;

/// Types that are asked for on a guest's behalf. All others get an empty answer: those with IPv6
/// addresses, because guests have none; those with addresses beside other things (HTTPS, SVCB),
/// because such addresses would not be opened; and those for servers rather than clients.
const FORWARDED: [RecordType; 7] = [
    RecordType::A,
    RecordType::CNAME,
    RecordType::MX,
    RecordType::NS,
    RecordType::SOA,
    RecordType::SRV,
    RecordType::TXT,
];

/// How an answer travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Datagram,
    Stream,
}

/// A guest's question, understood.
#[derive(Clone, Debug)]
pub struct Asked {
    id: u16,
    query: Query,
    recursion_desired: bool,
    /// The longest datagram that the guest takes, if it said so.
    offered: Option<u16>,
    name: Option<String>,
}

/// An address that an answer names, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    pub address: Ipv4Addr,
    pub ttl: Duration,
}

/// What is left of an answer.
#[derive(Clone, Debug)]
pub struct Filtered {
    message: Message,
    /// The addresses in it. They must be open before the guest gets the message.
    pub found: Vec<Found>,
    /// Addresses that were taken out because nobody may reach them.
    pub stripped: Vec<Ipv4Addr>,
}

/// What an answer is held against.
pub struct Sieve<P> {
    /// Tells whether the host's policy lets guests reach an address at all.
    pub permits: P,
    /// Longest TTL that the guest is told.
    pub ttl_max: Duration,
}

/// An answer that cannot be passed on: not one to the question, or not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the resolver's answer does not fit the question")]
pub struct Misfit;

impl Asked {
    /// Takes what matters of a checked query.
    pub fn of(query: &DnsQuery) -> Asked {
        let name = plain_name(&query.question.name);
        let offered = query.edns.as_ref().map(|edns| edns.max_payload().clamp(PLAIN_UDP_BYTES, UDP_BYTES_MAX));
        Asked {
            id: query.id(),
            query: query.question.clone(),
            recursion_desired: query.recursion_desired(),
            offered,
            name,
        }
    }

    /// Gives the name as rules are written, or `None` if it has bytes that no rule can name.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Gives the name for people to read; odd bytes are escaped.
    pub fn shown(&self) -> String {
        let shown = self.query.name.to_ascii();
        shown.strip_suffix('.').filter(|front| !front.is_empty()).unwrap_or(&shown).to_owned()
    }

    /// Writes the question to a resolver, or `None` if the type is answered with nothing. The id is
    /// not the guest's: one that knew it could have a helper outside forge the answer.
    pub fn question(&self, id: u16) -> Option<Vec<u8>> {
        if !FORWARDED.contains(&self.query.query_type) {
            return None;
        }
        let mut message = Message::new(id, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = true;
        message.add_query(self.query.clone());
        if let Some(offered) = self.offered {
            message.set_edns(edns(offered));
        }
        message.to_vec().ok()
    }

    /// The answer for a name that is not on the list: there is no such name. A definite answer ends
    /// the asking at once, where "refused" makes some clients try for seconds; and as it names no
    /// zone, it may not be remembered, so that a longer list works at once.
    pub fn unlisted(&self, way: Way) -> Vec<u8> {
        self.encode(&self.response(ResponseCode::NXDomain), way)
    }

    /// The answer that the name has no records of this type.
    pub fn nothing(&self, way: Way) -> Vec<u8> {
        self.encode(&self.response(ResponseCode::NoError), way)
    }

    /// The answer that none could be had.
    pub fn failure(&self, way: Way) -> Vec<u8> {
        self.encode(&self.response(ResponseCode::ServFail), way)
    }

    /// Gives what the guest may know of a resolver's answer: the records of the type it asked for,
    /// at the name it asked for or where aliases lead from there, without addresses that nobody may
    /// reach.
    pub fn filter(&self, answer: &[u8], sieve: &Sieve<impl Fn(Ipv4Addr) -> bool>) -> Result<Filtered, Misfit> {
        let answer = Message::from_vec(answer).map_err(|_| Misfit)?;
        let [echo] = answer.queries.as_slice() else { return Err(Misfit) };
        let same = echo.name.eq_ignore_root(&self.query.name)
            && echo.query_type == self.query.query_type
            && echo.query_class == self.query.query_class;
        if !same || answer.metadata.message_type != MessageType::Response {
            return Err(Misfit);
        }
        let code = match answer.metadata.response_code {
            code @ (ResponseCode::NoError | ResponseCode::NXDomain) => code,
            _ => ResponseCode::ServFail,
        };
        let mut message = self.response(code);
        message.metadata.truncation = answer.metadata.truncation;
        let mut filtered = Filtered { message, found: Vec::new(), stripped: Vec::new() };
        let end = self.follow(&answer.answers, sieve, &mut filtered);
        for record in answer.answers.iter().filter(|record| is_at(record, &end, self.query.query_type)) {
            filtered.take(record, sieve);
        }
        Ok(filtered)
    }

    /// Encodes what is left of an answer.
    pub fn answer(&self, filtered: &Filtered, way: Way) -> Vec<u8> {
        self.encode(&filtered.message, way)
    }

    /// Keeps the aliases that lead from the asked name on, and gives where they end.
    fn follow(&self, answers: &[Record], sieve: &Sieve<impl Fn(Ipv4Addr) -> bool>, filtered: &mut Filtered) -> Name {
        let mut at = self.query.name.clone();
        if self.query.query_type == RecordType::CNAME {
            return at;
        }
        for _ in 0..ALIASES_PER_ANSWER {
            let alias = answers.iter().find(|record| is_at(record, &at, RecordType::CNAME));
            let Some((alias, RData::CNAME(target))) = alias.map(|record| (record, &record.data)) else { break };
            filtered.take(alias, sieve);
            at = target.0.clone();
        }
        at
    }

    fn response(&self, code: ResponseCode) -> Message {
        let mut message = Message::response(self.id, OpCode::Query);
        message.metadata.recursion_desired = self.recursion_desired;
        message.metadata.recursion_available = true;
        message.metadata.response_code = code;
        message.add_query(self.query.clone());
        if self.offered.is_some() {
            message.set_edns(edns(UDP_BYTES_MAX));
        }
        message
    }

    /// Writes a message no longer than the guest takes; one that would be longer is cut and says
    /// so.
    fn encode(&self, message: &Message, way: Way) -> Vec<u8> {
        let bytes_max = match way {
            Way::Datagram => self.offered.unwrap_or(PLAIN_UDP_BYTES),
            Way::Stream => TCP_BYTES_MAX,
        };
        if let Some(bytes) = encode_within(message, bytes_max) {
            return bytes;
        }
        let mut cut = self.response(message.metadata.response_code);
        cut.metadata.truncation = true;
        encode_within(&cut, bytes_max).unwrap_or_else(|| {
            let [high, low] = self.id.to_be_bytes();
            vec![high, low, 0x80, ResponseCode::ServFail.low(), 0, 0, 0, 0, 0, 0, 0, 0]
        })
    }
}

impl Filtered {
    fn take(&mut self, record: &Record, sieve: &Sieve<impl Fn(Ipv4Addr) -> bool>) {
        let mut record = record.clone();
        record.ttl = record.ttl.min(u32::try_from(sieve.ttl_max.as_secs()).unwrap_or(u32::MAX));
        if let RData::A(address) = &record.data {
            let address = address.0;
            if !(sieve.permits)(address) {
                self.stripped.push(address);
                return;
            }
            if self.found.len() >= ADDRESSES_PER_ANSWER {
                return;
            }
            self.found.push(Found { address, ttl: Duration::from_secs(record.ttl.into()) });
        }
        self.message.add_answer(record);
    }
}

fn is_at(record: &Record, name: &Name, kind: RecordType) -> bool {
    record.dns_class == DNSClass::IN && record.record_type() == kind && record.name.eq_ignore_root(name)
}

fn edns(bytes_max: u16) -> Edns {
    let mut edns = Edns::new();
    edns.set_max_payload(bytes_max).set_version(0);
    edns
}

/// Writes a name as rules do: lower case, no final dot. A label with any other byte, a dot within
/// it above all, makes a name that only looks like one on the list.
fn plain_name(name: &Name) -> Option<String> {
    let mut text = String::new();
    for label in name.iter() {
        let plain = label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if !plain || label.is_empty() {
            return None;
        }
        if !text.is_empty() {
            text.push('.');
        }
        text.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
    }
    (!text.is_empty()).then_some(text)
}

fn encode_within(message: &Message, bytes_max: u16) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(PLAIN_UDP_BYTES.into());
    let mut encoder = BinEncoder::new(&mut bytes);
    encoder.set_max_size(bytes_max);
    message.emit(&mut encoder).ok()?;
    Some(bytes)
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
