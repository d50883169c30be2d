//! Tests of `filter`: examples, and random input from a guest or a resolver.

use hickory_proto::rr::rdata::{A, AAAA, CNAME, TXT};
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::net::query::check_query;

const TTL_MAX: Duration = Duration::from_secs(3600);

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn query(text: &str, kind: RecordType) -> Message {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name(text), kind));
    message
}

fn read(bytes: &[u8]) -> DnsQuestion {
    DnsQuestion::of(&check_query(bytes).unwrap())
}

fn asked(text: &str, kind: RecordType) -> DnsQuestion {
    read(&query(text, kind).to_vec().unwrap())
}

fn address(owner: &str, ttl: u32, address: [u8; 4]) -> Record {
    Record::from_rdata(name(owner), ttl, RData::A(A(address.into())))
}

fn alias(owner: &str, target: &str) -> Record {
    Record::from_rdata(name(owner), 300, RData::CNAME(CNAME(name(target))))
}

fn answer(to: &DnsQuestion, records: Vec<Record>) -> Vec<u8> {
    let mut message = to.response(ResponseCode::NoError);
    message.add_answers(records);
    message.to_vec().unwrap()
}

fn filtered(to: &DnsQuestion, answer: &[u8]) -> Result<FilteredAnswer, BadAnswer> {
    to.filter(answer, &AnswerFilter { permits: |address: Ipv4Addr| !address.is_private(), ttl_max: TTL_MAX })
}

fn found(to: &DnsQuestion, records: Vec<Record>) -> Vec<String> {
    let filtered = filtered(to, &answer(to, records)).unwrap();
    filtered.found.iter().map(|found| found.address.to_string()).collect()
}

#[test]
fn a_dot_within_a_label_makes_no_listed_name() {
    assert_eq!(asked("PyPI.org.", RecordType::A).name(), Some("pypi.org"));
    let mut question = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    question.extend(b"\x0devil.pypi-org\x00\x00\x01\x00\x01");
    assert_eq!(read(&question).name(), None);
    let mut root = question[..12].to_vec();
    root.extend(b"\x00\x00\x01\x00\x01");
    assert_eq!(read(&root).name(), None, "the root");
}

#[test]
fn only_some_types_are_asked_for() {
    for kind in [RecordType::A, RecordType::TXT, RecordType::SRV, RecordType::MX] {
        assert!(asked("a.example.", kind).question(1).is_some(), "{kind}");
    }
    for kind in [RecordType::AAAA, RecordType::HTTPS, RecordType::SVCB, RecordType::ANY] {
        let asked = asked("a.example.", kind);
        assert!(asked.question(1).is_none(), "{kind}");
        let nothing = Message::from_vec(&asked.nothing(DnsTransport::Datagram)).unwrap();
        assert_eq!((nothing.metadata.response_code, nothing.answers.len()), (ResponseCode::NoError, 0));
    }
}

#[test]
fn the_resolver_sees_nothing_but_the_question() {
    let mut message = query("a.example.", RecordType::A);
    let mut edns = edns(4096);
    edns.options_mut().insert(hickory_proto::rr::rdata::opt::EdnsOption::Unknown(65001, b"secret".to_vec()));
    message.set_edns(edns);
    let asked = read(&message.to_vec().unwrap());
    let sent = asked.question(99).unwrap();
    assert!(!sent.windows(6).any(|window| window == b"secret"));
    let sent = Message::from_vec(&sent).unwrap();
    assert_eq!((sent.metadata.id, sent.queries.len(), sent.additionals.len()), (99, 1, 0));
    assert_eq!(sent.max_payload(), UDP_BYTES_MAX);
}

#[test]
fn addresses_are_taken_from_the_asked_name_and_its_aliases_only() {
    let to = asked("www.a.example.", RecordType::A);
    let records = vec![
        address("elsewhere.example.", 60, [9, 9, 9, 9]),
        alias("WWW.a.example.", "cdn.b.example."),
        alias("unrelated.example.", "elsewhere.example."),
        alias("cdn.b.example.", "edge.c.example."),
        address("edge.c.example.", 60, [1, 2, 3, 4]),
        address("www.a.example.", 60, [8, 8, 8, 8]),
        Record::from_rdata(name("edge.c.example."), 60, RData::AAAA(AAAA::new(1, 2, 3, 4, 5, 6, 7, 8))),
        Record::from_rdata(name("edge.c.example."), 60, RData::TXT(TXT::new(vec!["x".to_owned()]))),
    ];
    let filtered = filtered(&to, &answer(&to, records)).unwrap();
    assert_eq!(filtered.found, [ResolvedAddress { address: [1, 2, 3, 4].into(), ttl: Duration::from_secs(60) }]);
    let told = Message::from_vec(&to.answer(&filtered, DnsTransport::Datagram)).unwrap();
    assert_eq!(told.metadata.id, 7);
    assert_eq!(told.answers.len(), 3, "two aliases and the address");
}

#[test]
fn aliases_in_a_circle_end() {
    let to = asked("a.example.", RecordType::A);
    let records = vec![alias("a.example.", "b.example."), alias("b.example.", "a.example.")];
    assert!(found(&to, records).is_empty());
}

#[test]
fn private_addresses_are_stripped_and_ttls_bounded() {
    let to = asked("a.example.", RecordType::A);
    let records = vec![address("a.example.", 90_000, [10, 0, 0, 1]), address("a.example.", 90_000, [1, 2, 3, 4])];
    let filtered = filtered(&to, &answer(&to, records)).unwrap();
    assert_eq!(filtered.stripped, [Ipv4Addr::new(10, 0, 0, 1)]);
    let told = Message::from_vec(&to.answer(&filtered, DnsTransport::Datagram)).unwrap();
    assert_eq!(told.answers, [address("a.example.", 3600, [1, 2, 3, 4])]);
}

#[test]
fn an_answer_to_another_question_is_a_misfit() {
    let to = asked("a.example.", RecordType::A);
    for other in [asked("b.example.", RecordType::A), asked("a.example.", RecordType::TXT)] {
        assert!(filtered(&to, &answer(&other, vec![address("b.example.", 1, [1, 2, 3, 4])])).is_err());
    }
    assert!(filtered(&to, &query("a.example.", RecordType::A).to_vec().unwrap()).is_err(), "a question");
    assert!(filtered(&to, b"").is_err());
}

#[test]
fn a_long_answer_is_cut_over_udp_and_whole_over_tcp() {
    let to = asked("a.example.", RecordType::A);
    let records = (0..ADDRESSES_PER_ANSWER as u8 + 9).map(|last| address("a.example.", 60, [1, 2, 3, last])).collect();
    let filtered = filtered(&to, &answer(&to, records)).unwrap();
    assert_eq!(filtered.found.len(), ADDRESSES_PER_ANSWER);
    let datagram = to.answer(&filtered, DnsTransport::Datagram);
    assert!(datagram.len() <= usize::from(PLAIN_UDP_BYTES));
    assert!(Message::from_vec(&datagram).unwrap().metadata.truncation);
    let stream = Message::from_vec(&to.answer(&filtered, DnsTransport::Stream)).unwrap();
    assert_eq!((stream.metadata.truncation, stream.answers.len()), (false, ADDRESSES_PER_ANSWER));
}

fn some_name() -> impl Strategy<Value = String> {
    proptest::sample::select(vec!["a.example.", "b.example.", "c.b.example.", "d.test.", "A.EXAMPLE."])
        .prop_map(str::to_owned)
}

fn some_record() -> impl Strategy<Value = Record> {
    let addresses = (some_name(), any::<u32>(), any::<[u8; 4]>());
    prop_oneof![
        addresses.prop_map(|(owner, ttl, bytes)| address(&owner, ttl, bytes)),
        (some_name(), some_name()).prop_map(|(owner, target)| alias(&owner, &target)),
        some_name().prop_map(|owner| Record::from_rdata(
            name(&owner),
            1,
            RData::AAAA(AAAA::new(0, 0, 0, 0, 0, 0, 0, 1))
        )),
    ]
}

proptest! {
    /// For any answer of a resolver, a guest receives only addresses of the asked name's alias
    /// chain, and exactly those that were found.
    #[test]
    fn what_is_told_is_what_is_opened(records in vec(some_record(), 0..40)) {
        let to = asked("a.example.", RecordType::A);
        let filtered = filtered(&to, &answer(&to, records.clone())).unwrap();
        let told = Message::from_vec(&to.answer(&filtered, DnsTransport::Stream)).unwrap();
        let mut reached = vec![name("a.example.")];
        for record in &told.answers {
            prop_assert!(record.ttl <= 3600);
            match &record.data {
                RData::CNAME(target) => {
                    prop_assert!(reached.last().unwrap().eq_ignore_root(&record.name));
                    reached.push(target.0.clone());
                }
                RData::A(address) => {
                    prop_assert!(reached.last().unwrap().eq_ignore_root(&record.name));
                    prop_assert!(!address.0.is_private());
                    prop_assert!(filtered.found.iter().any(|found| found.address == address.0));
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
        let told_addresses = told.answers.iter().filter(|record| record.record_type() == RecordType::A).count();
        prop_assert_eq!(told_addresses, filtered.found.len());
    }

    /// Random bytes, with and without a valid header, are answered or refused without a panic.
    #[test]
    fn any_bytes_are_read_without_harm(bytes in vec(any::<u8>(), 0..600), header in any::<bool>()) {
        let mut bytes = bytes;
        if header && bytes.len() >= 12 {
            bytes[2..12].copy_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        }
        if let Ok(query) = check_query(&bytes) {
            let asked = DnsQuestion::of(&query);
            let _ = (asked.name(), asked.shown(), asked.question(1));
            prop_assert!(asked.unlisted(DnsTransport::Datagram).len() <= usize::from(UDP_BYTES_MAX));
            let _ = filtered(&asked, &bytes);
        }
        let to = asked("a.example.", RecordType::A);
        let _ = filtered(&to, &bytes);
    }

    /// A valid answer with some bytes changed or cut off.
    #[test]
    fn a_damaged_answer_is_read_without_harm(
        records in vec(some_record(), 0..8), changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), cut: prop::sample::Index,
    ) {
        let to = asked("a.example.", RecordType::A);
        let mut bytes = answer(&to, records);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(filtered) = filtered(&to, &bytes) {
            prop_assert!(filtered.found.iter().all(|found| !found.address.is_private()));
            let _ = to.answer(&filtered, DnsTransport::Datagram);
        }
        let _ = filtered(&to, &bytes[..cut.index(bytes.len())]);
    }
}
