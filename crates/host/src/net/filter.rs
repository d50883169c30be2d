//! Decides which DNS questions of a restricted guest are forwarded, and which parts of an answer it
//! receives. Pure: bytes in, bytes out. Never forwards received bytes: it writes each question and
//! answer anew from the parsed message, so that the relay cannot carry other data.
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

/// Datagram size of a client that does not send EDNS.
const PLAIN_UDP_BYTES: u16 = 512;
/// Largest datagram that we offer and accept. It fits every link without fragments.
const UDP_BYTES_MAX: u16 = 1232;
const TCP_BYTES_MAX: u16 = u16::MAX;

/// Types that are forwarded for a guest. All others get an empty answer: types with IPv6 addresses,
/// because guests have no IPv6; types that carry addresses among other data (HTTPS, SVCB), because
/// those addresses would not be opened; and types for servers rather than clients.
const FORWARDED: [RecordType; 7] = [
    RecordType::A,
    RecordType::CNAME,
    RecordType::MX,
    RecordType::NS,
    RecordType::SOA,
    RecordType::SRV,
    RecordType::TXT,
];

/// The transport of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnsTransport {
    Datagram,
    Stream,
}

/// A guest's question, parsed.
#[derive(Clone, Debug)]
pub struct DnsQuestion {
    id: u16,
    query: Query,
    recursion_desired: bool,
    /// The longest datagram that the guest accepts, if it sent EDNS.
    offered: Option<u16>,
    name: Option<String>,
}

/// An address in an answer, and its TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResolvedAddress {
    pub address: Ipv4Addr,
    pub ttl: Duration,
}

/// An answer after filtering.
#[derive(Clone, Debug)]
pub struct FilteredAnswer {
    message: Message,
    /// The addresses in the message. They must be open before the guest receives it.
    pub found: Vec<ResolvedAddress>,
    /// Addresses that were removed because the host's policy refuses them.
    pub stripped: Vec<Ipv4Addr>,
}

/// The settings of a filter.
pub struct AnswerFilter<P> {
    /// Returns whether the host's policy lets guests reach an address.
    pub permits: P,
    /// Longest TTL that the guest receives.
    pub ttl_max: Duration,
}

/// An answer that cannot be forwarded: it does not match the question, or does not parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the resolver's answer does not match the question")]
pub struct BadAnswer;

impl DnsQuestion {
    /// Takes the needed parts of a checked query.
    pub fn of(query: &DnsQuery) -> DnsQuestion {
        let name = plain_name(&query.question.name);
        let offered = query.edns.as_ref().map(|edns| edns.max_payload().clamp(PLAIN_UDP_BYTES, UDP_BYTES_MAX));
        DnsQuestion {
            id: query.id(),
            query: query.question.clone(),
            recursion_desired: query.recursion_desired(),
            offered,
            name,
        }
    }

    /// Returns the name in the form that rules use, or `None` if it contains bytes that no rule
    /// allows.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the name for display, with unusual bytes escaped.
    pub fn shown(&self) -> String {
        let shown = self.query.name.to_ascii();
        shown.strip_suffix('.').filter(|front| !front.is_empty()).unwrap_or(&shown).to_owned()
    }

    /// Writes the question for a resolver, or returns `None` if the type gets an empty answer. The
    /// id is not the guest's: a guest that knows the id could have an outside helper forge the
    /// answer.
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

    /// The answer for a name that is not on the list: NXDOMAIN. Clients stop at once, while some
    /// retry for seconds after REFUSED. The answer has no SOA record, so clients do not cache it
    /// and a longer list works at once.
    pub fn unlisted(&self, way: DnsTransport) -> Vec<u8> {
        self.encode(&self.response(ResponseCode::NXDomain), way)
    }

    /// The answer that the name has no records of this type.
    pub fn nothing(&self, way: DnsTransport) -> Vec<u8> {
        self.encode(&self.response(ResponseCode::NoError), way)
    }

    /// The answer that resolution failed.
    pub fn failure(&self, way: DnsTransport) -> Vec<u8> {
        self.encode(&self.response(ResponseCode::ServFail), way)
    }

    /// Filters a resolver's answer. Keeps the records of the asked type, at the asked name or at
    /// the end of its alias chain, without addresses that the host's policy refuses.
    pub fn filter(
        &self,
        answer: &[u8],
        sieve: &AnswerFilter<impl Fn(Ipv4Addr) -> bool>,
    ) -> Result<FilteredAnswer, BadAnswer> {
        let answer = Message::from_vec(answer).map_err(|_| BadAnswer)?;
        let [echo] = answer.queries.as_slice() else { return Err(BadAnswer) };
        let same = echo.name.eq_ignore_root(&self.query.name)
            && echo.query_type == self.query.query_type
            && echo.query_class == self.query.query_class;
        if !same || answer.metadata.message_type != MessageType::Response {
            return Err(BadAnswer);
        }
        let code = match answer.metadata.response_code {
            code @ (ResponseCode::NoError | ResponseCode::NXDomain) => code,
            _ => ResponseCode::ServFail,
        };
        let mut message = self.response(code);
        message.metadata.truncation = answer.metadata.truncation;
        let mut filtered = FilteredAnswer { message, found: Vec::new(), stripped: Vec::new() };
        let end = self.follow(&answer.answers, sieve, &mut filtered);
        for record in answer.answers.iter().filter(|record| is_at(record, &end, self.query.query_type)) {
            filtered.take(record, sieve);
        }
        Ok(filtered)
    }

    /// Encodes a filtered answer.
    pub fn answer(&self, filtered: &FilteredAnswer, way: DnsTransport) -> Vec<u8> {
        self.encode(&filtered.message, way)
    }

    /// Keeps the alias records that start at the asked name. Returns the name where they end.
    fn follow(
        &self,
        answers: &[Record],
        sieve: &AnswerFilter<impl Fn(Ipv4Addr) -> bool>,
        filtered: &mut FilteredAnswer,
    ) -> Name {
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

    /// Encodes a message within the size that the guest accepts. A longer message is truncated and
    /// has the truncation flag.
    fn encode(&self, message: &Message, way: DnsTransport) -> Vec<u8> {
        let bytes_max = match way {
            DnsTransport::Datagram => self.offered.unwrap_or(PLAIN_UDP_BYTES),
            DnsTransport::Stream => TCP_BYTES_MAX,
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

impl FilteredAnswer {
    fn take(&mut self, record: &Record, sieve: &AnswerFilter<impl Fn(Ipv4Addr) -> bool>) {
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
            self.found.push(ResolvedAddress { address, ttl: Duration::from_secs(record.ttl.into()) });
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

/// Writes a name in the form that rules use: lower case, no final dot. Rejects labels with other
/// bytes, above all a dot, because such a name could look like one on the list.
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
