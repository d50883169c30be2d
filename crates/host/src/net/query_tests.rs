//! Tests of `query`: a table of messages, and random bytes.

use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode},
    rr::{
        Name, RData,
        rdata::{A, opt::EdnsOption},
    },
};
use proptest::{collection::vec, prelude::*};

use super::*;

fn query(kind: RecordType) -> Message {
    let mut message = Message::new(0x1234, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii("a.example.").unwrap(), kind));
    message
}

fn changed(kind: RecordType, change: impl FnOnce(&mut Message)) -> Vec<u8> {
    let mut message = query(kind);
    change(&mut message);
    message.to_vec().unwrap()
}

fn record() -> Record {
    Record::from_rdata(Name::from_ascii("a.example.").unwrap(), 1, RData::A(A([1, 2, 3, 4].into())))
}

/// A query with another opcode in its header. The rest need not be valid then.
fn with_opcode(opcode: u8) -> Vec<u8> {
    let mut bytes = changed(RecordType::SOA, |_| {});
    bytes[2] |= opcode << 3;
    bytes
}

#[test]
fn ordinary_queries_pass_as_they_came() {
    let mut edns = Edns::new();
    edns.set_max_payload(1232).set_version(0).set_dnssec_ok(true);
    edns.options_mut().insert(EdnsOption::Unknown(10, b"cookie00".to_vec()));
    let kinds = [RecordType::A, RecordType::AAAA, RecordType::HTTPS, RecordType::TXT, RecordType::ANY];
    for kind in kinds.into_iter().chain([RecordType::Unknown(65280)]) {
        for bytes in [
            changed(kind, |_| {}),
            changed(kind, |message| {
                message.set_edns(edns.clone());
            }),
        ] {
            assert_eq!(check_query(&bytes).unwrap().bytes(), bytes, "{kind}");
        }
    }
    let root = [0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1];
    assert!(check_query(&root).is_ok(), "the root is a name too");
}

/// Messages that must be refused: a label, the message, and the response code.
fn bad_messages() -> Vec<(&'static str, Vec<u8>, u8)> {
    let whole = changed(RecordType::A, |_| {});
    let second = Query::query(Name::from_ascii("b.example.").unwrap(), RecordType::A);
    let mut claims_much = whole[..12].to_vec();
    claims_much[4..].fill(0xff);
    let mut chaos = query(RecordType::TXT);
    chaos.queries[0].query_class = DNSClass::CH;
    let mut any_class = query(RecordType::A);
    any_class.queries[0].query_class = DNSClass::ANY;
    let refused = |kind| changed(kind, |_| {});
    let (format, not_implemented, refusal) = (1, 4, 5);
    vec![
        ("inverse query", with_opcode(1), not_implemented),
        ("status", with_opcode(2), not_implemented),
        ("notify", with_opcode(4), not_implemented),
        ("update", with_opcode(5), not_implemented),
        ("update of which only the header came", with_opcode(5)[..12].to_vec(), not_implemented),
        ("unknown opcode", with_opcode(15), not_implemented),
        ("AXFR", refused(RecordType::AXFR), refusal),
        ("IXFR", refused(RecordType::IXFR), refusal),
        (
            "IXFR with its record",
            changed(RecordType::IXFR, |it| {
                it.add_authority(record());
            }),
            refusal,
        ),
        ("TKEY", refused(RecordType::Unknown(249)), refusal),
        ("TSIG", refused(RecordType::TSIG), refusal),
        ("MAILB", refused(RecordType::Unknown(253)), refusal),
        ("OPT as a type", refused(RecordType::OPT), refusal),
        ("class CHAOS", chaos.to_vec().unwrap(), refusal),
        ("class ANY", any_class.to_vec().unwrap(), refusal),
        ("no question", changed(RecordType::A, |it| it.queries.clear()), format),
        (
            "two questions",
            changed(RecordType::A, |it| {
                it.add_query(second);
            }),
            format,
        ),
        (
            "an answer in it",
            changed(RecordType::A, |it| {
                it.add_answer(record());
            }),
            format,
        ),
        (
            "an authority in it",
            changed(RecordType::A, |it| {
                it.add_authority(record());
            }),
            format,
        ),
        (
            "another record in it",
            changed(RecordType::A, |it| {
                it.add_additional(record());
            }),
            format,
        ),
        ("65535 of everything claimed", claims_much, format),
        ("bytes after its end", [&whole[..], b"more"].concat(), format),
        ("cut in the name", whole[..16].to_vec(), format),
        ("cut before the class", whole[..whole.len() - 1].to_vec(), format),
        ("header only", whole[..12].to_vec(), format),
    ]
}

#[test]
fn everything_else_is_answered_with_its_code() {
    for (what, bytes, code) in bad_messages() {
        let reply = check_query(&bytes).unwrap_err().reply().unwrap_or_else(|| panic!("{what} gets an answer"));
        assert_eq!(reply[..2], [0x12, 0x34], "{what}: the id comes back");
        assert_eq!((reply[2] & ANSWER_BIT, reply[3] & 0xf), (ANSWER_BIT, code), "{what}");
        assert_eq!(reply[2] & OPCODE_BITS, bytes[2] & OPCODE_BITS, "{what}: the opcode comes back");
        let read = Message::from_vec(&reply).unwrap();
        assert!(read.queries.is_empty() && read.answers.is_empty(), "{what}");
    }
}

#[test]
fn what_is_no_query_is_dropped() {
    let mut answer = changed(RecordType::A, |_| {});
    answer[2] |= ANSWER_BIT;
    for bytes in [&[][..], &[0; HEADER_BYTES - 1], &[0xff; 40], &[0; DNS_QUESTION_BYTES_MAX + 1], &answer] {
        let bad = check_query(bytes).unwrap_err();
        assert_eq!((bad.reason, bad.reply()), (BadQueryReason::NotQuery, None), "{} bytes", bytes.len());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_checked_without_harm(bytes in vec(any::<u8>(), 0..80), as_query: bool) {
        let mut bytes = bytes;
        if as_query && bytes.len() >= HEADER_BYTES {
            bytes[2..HEADER_BYTES].copy_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        }
        match check_query(&bytes) {
            Ok(query) => prop_assert_eq!(query.bytes(), &bytes[..]),
            Err(bad) => prop_assert!(bad.reply().is_none_or(|reply| reply.len() == HEADER_BYTES)),
        }
    }
}
