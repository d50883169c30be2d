//! Reads any bytes as a guest's DNS question, and as a resolver's answer to it. Run: `cargo xtask
//! fuzz dns_messages`. The files are taken from the host as they are: the host itself would bring
//! a database along.
#![no_main]

#[allow(dead_code, unused_imports)]
#[path = "../../crates/host/src/net/filter.rs"]
mod filter;
#[allow(dead_code)]
#[path = "../../crates/host/src/net/limits.rs"]
mod limits;
/// What `limits.rs` is compared with at compile time.
#[allow(dead_code)]
mod names {
    pub const BLOCK_BITS: u8 = 22;
}
#[allow(dead_code)]
#[path = "../../crates/host/src/net/query.rs"]
mod query;

use std::time::Duration;

use filter::{AnswerFilter, DnsQuestion, DnsTransport};
use libfuzzer_sys::fuzz_target;
use query::check_query;

fuzz_target!(|bytes: &[u8]| {
    // The first byte says where the question ends.
    let Some((cut, bytes)) = bytes.split_first() else { return };
    let (question, answer) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    let query = match check_query(question) {
        Ok(query) => query,
        Err(refused) => return assert!(refused.reply().is_none_or(|reply| reply.len() >= 12)),
    };
    let asked = DnsQuestion::of(&query);
    let _ = (asked.name(), asked.shown());
    if let Some(ours) = asked.question(7) {
        let again = check_query(&ours).expect("our own question is an ordinary one");
        assert_eq!(DnsQuestion::of(&again).shown(), asked.shown());
    }
    for way in [DnsTransport::Datagram, DnsTransport::Stream] {
        for ours in [asked.unlisted(way), asked.nothing(way), asked.failure(way)] {
            assert!(ours.len() >= 12);
        }
        let sieve = AnswerFilter {
            permits: |address: std::net::Ipv4Addr| !address.is_private(),
            ttl_max: Duration::from_secs(60),
        };
        // An answer must repeat the question, which few inputs do by themselves.
        let echoed = asked.question(7).map(|mut ours| {
            ours[2] |= 0x80;
            ours.extend_from_slice(answer);
            ours
        });
        for answer in [Some(answer.to_vec()), echoed].into_iter().flatten() {
            if let Ok(filtered) = asked.filter(&answer, &sieve) {
                assert!(filtered.found.iter().all(|found| !found.address.is_private()));
                assert!(asked.answer(&filtered, way).len() >= 12);
            }
        }
    }
});
