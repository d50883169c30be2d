//! Owns every limit and timeout of the host's network. The reachability rules are in `policy`.

use std::time::Duration;

/// Slots that one instance can have. Each takes four addresses of a /22.
pub const SLOTS_MAX: usize = 250;
/// Descriptors of this process that one machine needs: its namespace, DNS sockets, filter log,
/// monitor, agent, process handle and console, and some of its guest's DNS questions. A quarter of
/// all descriptors is for machines.
pub const DESCRIPTORS_PER_SLOT: u64 = 16;
pub const SLOTS_PART_OF_DESCRIPTORS: u64 = 4;
const _: () = assert!(SLOTS_MAX * 4 <= 1 << (32 - super::names::BLOCK_BITS), "every slot must have its own /30");

/// Timeout of one run of `ip`, `nft` or `tc`. They need milliseconds.
pub const COMMAND_DEADLINE: Duration = Duration::from_secs(10);

/// Pause after a slot could not be made ahead, so that a failing host is not retried in a tight
/// loop.
pub const REFILL_PAUSE: Duration = Duration::from_secs(2);

/// Pause between taking a slot and making the next one ahead.
pub const REFILL_SETTLE: Duration = Duration::from_millis(250);

/// Open connections of one guest to the outside, so that it cannot fill the host's connection
/// table.
pub const CONNECTIONS_MAX: u32 = 4096;

/// New connections per second of one guest, for TCP, UDP and ICMP. Closed TCP connections stay in
/// the host's table for two minutes and do not count as open, so this limit bounds them.
pub const FLOWS_PER_SECOND: u32 = 100;

/// Burst of new connections that an idle guest may open at once.
pub const FLOWS_AT_ONCE: u32 = 4096;

/// How long the kernel keeps a closed TCP connection in its table.
const CLOSED_SECONDS: u32 = 120;
const _: () = assert!(
    CONNECTIONS_MAX + FLOWS_AT_ONCE + FLOWS_PER_SECOND * CLOSED_SECONDS <= 65_536 / 3,
    "one guest must not fill the connection table of a small host"
);

/// DNS questions of one guest in flight over UDP. More wait in the socket's buffer or are lost.
pub const DNS_UDP_MAX: usize = 64;

/// DNS connections of one guest. More wait to be accepted.
pub const DNS_TCP_MAX: usize = 16;

/// Connections of one guest to the service at its gateway. More are closed at once.
pub const GATEWAY_CONNECTIONS_MAX: usize = 8;

/// Longest question. A name has at most 255 bytes, and the rest is space for options.
pub const DNS_QUESTION_BYTES_MAX: usize = 1280;

/// Longest answer over UDP. Resolvers truncate longer ones, and the client asks again over TCP.
pub const DNS_UDP_ANSWER_BYTES_MAX: usize = 4096;

/// Timeout of one question over all resolvers, and of one read or write on a TCP connection.
pub const DNS_DEADLINE: Duration = Duration::from_secs(5);

/// Timeout of one resolver before the next one is asked.
pub const DNS_TRY: Duration = Duration::from_secs(2);
const _: () = assert!(DNS_TRY.as_millis() * 2 < DNS_DEADLINE.as_millis(), "a second resolver must get its turn");

/// Questions that one TCP connection may carry.
pub const DNS_QUESTIONS_PER_CONNECTION: usize = 64;

/// Slots that are made or removed at the same time. The kernel does most of this work under one
/// lock.
pub const MAKERS_MAX: u32 = 4;

/// Shortest time that an address stays open after a restricted guest received it. Applications
/// connect a little after they resolve a name, and some names have a TTL of zero.
pub const NAMED_FLOOR: Duration = Duration::from_secs(60);

/// Longest time that an address stays open after an answer. Longer TTLs in answers are cut to it.
pub const NAMED_CEILING: Duration = Duration::from_secs(3600);
const _: () = assert!(NAMED_FLOOR.as_secs() <= NAMED_CEILING.as_secs(), "the bounds must leave something");

/// Addresses that one restricted guest may have open by name at a time, and answers that are
/// remembered for it.
pub const NAMED_MAX: usize = 4096;

/// Writes of such addresses to the kernel per second and slot. Each write starts a process, and a
/// guest can keep asking for new names. Answers that arrive together share a write.
pub const NAMED_WRITES_PER_SECOND: u32 = 10;

/// Burst of writes that an idle slot may make at once.
pub const NAMED_WRITES_AT_ONCE: u32 = 20;

/// Writes in progress in all slots of an instance.
pub const NAMED_WRITERS_MAX: usize = 4;

/// Answers of one slot that wait for a write, each with at most [`ADDRESSES_PER_ANSWER`] addresses.
/// More get "server failure".
pub const NAMED_WAITING_MAX: usize = 2 * (DNS_UDP_MAX + DNS_TCP_MAX);

/// How long an answer waits for its write before it becomes "server failure". Clients ask again
/// after five seconds.
pub const NAMED_WITHIN: Duration = Duration::from_secs(3);
const _: () = assert!(NAMED_WITHIN.as_millis() as u32 > 2 * 1000 / NAMED_WRITES_PER_SECOND, "one turn must fit");

/// Addresses accepted from one answer.
pub const ADDRESSES_PER_ANSWER: usize = 64;

/// Aliases followed in one answer.
pub const ALIASES_PER_ANSWER: usize = 16;

/// How long a denied target is not reported again.
pub const DENIALS_WINDOW: Duration = Duration::from_secs(60);

/// Denied targets that one slot reports in a window.
pub const DENIALS_PER_WINDOW: usize = 64;

/// Denials that wait for a receiver. A receiver that is too slow loses the oldest.
pub const DENIALS_WAITING: usize = 1024;

/// Smallest bucket of a bandwidth limit: one segment before the kernel splits it into packets.
pub const BUCKET_BYTES_MIN: u64 = 64 * 1024;

/// A bucket holds the bytes of this fraction of a second, so that timers need not be exact.
pub const BUCKET_SHARE_OF_SECOND: u64 = 100;

/// How long a packet may wait in the queue of a bandwidth limit before it is dropped.
pub const QUEUE_MS_MAX: u32 = 100;
