//! Checks the messages that a guest sends to the DNS relay. Pure: bytes in, a checked query or an
//! error reply out. Only ordinary queries pass: opcode QUERY, one question of class IN, no zone
//! transfer, no records except EDNS. The host's resolver may trust the host, so UPDATE, NOTIFY,
//! transfers and key exchange must never reach it.

use hickory_proto::{
    op::{Edns, Query, ResponseCode},
    rr::{DNSClass, Record, RecordType},
    serialize::binary::{BinDecodable, BinDecoder},
};

use super::limits::DNS_QUESTION_BYTES_MAX;

pub const HEADER_BYTES: usize = 12;
/// Set in the third byte of an answer, clear in a query.
pub const ANSWER_BIT: u8 = 0x80;
/// The opcode in the third byte.
const OPCODE_BITS: u8 = 0x78;
/// "Recursion desired" in the third byte; an answer repeats it.
const RECURSION_BIT: u8 = 0x01;
/// "Recursion available" in the fourth byte.
const AVAILABLE_BIT: u8 = 0x80;
/// Meta types (RFC 6895), among them transfers, TKEY and TSIG. `ANY` is in the range too.
const META_TYPES: std::ops::RangeInclusive<u16> = 128..=255;

/// A guest's message that may be sent to a resolver.
#[derive(Clone, Debug)]
pub struct DnsQuery {
    bytes: Vec<u8>,
    pub(super) question: Query,
    /// The guest's EDNS, if it sent any.
    pub(super) edns: Option<Edns>,
}

impl DnsQuery {
    /// Returns the message as received.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn id(&self) -> u16 {
        u16::from_be_bytes([self.bytes[0], self.bytes[1]])
    }

    pub(super) fn recursion_desired(&self) -> bool {
        self.bytes[2] & RECURSION_BIT != 0
    }

    /// Turns the query into a "server failure" answer, so that the guest need not wait.
    pub fn into_failure(self) -> Vec<u8> {
        let mut bytes = self.bytes;
        bytes[2] |= ANSWER_BIT;
        bytes[3] = AVAILABLE_BIT | ResponseCode::ServFail.low();
        bytes
    }
}

/// A guest's message that is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadQuery {
    pub reason: BadQueryReason,
    /// Id and flags, which the answer repeats.
    head: [u8; 3],
}

/// Why a message is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadQueryReason {
    /// Too short, too long, or an answer. It gets no reply, because two servers could answer each
    /// other for ever.
    #[error("not a query")]
    NotQuery,
    #[error("malformed, or not exactly one question")]
    Format,
    #[error("opcode is not QUERY")]
    Opcode,
    #[error("class is not IN, or the type is a zone transfer or another meta type")]
    Forbidden,
}

impl BadQuery {
    /// Returns the reply for the guest: a header with the response code. `None` means no reply.
    pub fn reply(&self) -> Option<Vec<u8>> {
        let code = match self.reason {
            BadQueryReason::NotQuery => return None,
            BadQueryReason::Format => ResponseCode::FormErr,
            BadQueryReason::Opcode => ResponseCode::NotImp,
            BadQueryReason::Forbidden => ResponseCode::Refused,
        };
        let [high, low, flags] = self.head;
        let flags = ANSWER_BIT | flags & (OPCODE_BITS | RECURSION_BIT);
        Some(vec![high, low, flags, AVAILABLE_BIT | code.low(), 0, 0, 0, 0, 0, 0, 0, 0])
    }
}

/// Checks one message of a guest. `ANY` passes: it asks about one name, and resolvers answer it
/// briefly (RFC 8482).
pub fn check_query(bytes: &[u8]) -> Result<DnsQuery, BadQuery> {
    let bad = |reason, head| Err(BadQuery { reason, head });
    let Some(&[high, low, flags, _, q1, q0, a1, a0, n1, n0, r1, r0]) = bytes.first_chunk::<HEADER_BYTES>() else {
        return bad(BadQueryReason::NotQuery, [0; 3]);
    };
    let head = [high, low, flags];
    if bytes.len() > DNS_QUESTION_BYTES_MAX || flags & ANSWER_BIT != 0 {
        return bad(BadQueryReason::NotQuery, head);
    }
    if flags & OPCODE_BITS != 0 {
        return bad(BadQueryReason::Opcode, head);
    }
    // The counts are checked before parsing, so that a header cannot claim thousands of records.
    let [questions, answers, authorities, additionals] =
        [[q1, q0], [a1, a0], [n1, n0], [r1, r0]].map(u16::from_be_bytes);
    let mut decoder = BinDecoder::new(bytes).clone(HEADER_BYTES as u16);
    if questions != 1 {
        return bad(BadQueryReason::Format, head);
    }
    let Ok(question) = Query::read(&mut decoder) else { return bad(BadQueryReason::Format, head) };
    // Checked before the other records: an IXFR carries one, and must be refused as forbidden.
    if is_forbidden(&question) {
        return bad(BadQueryReason::Forbidden, head);
    }
    let edns = match additionals {
        0 => None,
        1 => match read_edns(&mut decoder) {
            None => return bad(BadQueryReason::Format, head),
            edns => edns,
        },
        _ => return bad(BadQueryReason::Format, head),
    };
    if answers != 0 || authorities != 0 || !decoder.is_empty() {
        return bad(BadQueryReason::Format, head);
    }
    Ok(DnsQuery { bytes: bytes.to_vec(), question, edns })
}

fn is_forbidden(question: &Query) -> bool {
    let kind = u16::from(question.query_type);
    let meta = META_TYPES.contains(&kind) && question.query_type != RecordType::ANY;
    meta || question.query_type == RecordType::OPT || question.query_class != DNSClass::IN
}

fn read_edns(decoder: &mut BinDecoder<'_>) -> Option<Edns> {
    let record = Record::read(decoder).ok()?;
    (record.record_type() == RecordType::OPT).then(|| Edns::from(&record))
}

#[cfg(test)]
#[path = "query_tests.rs"]
mod tests;
