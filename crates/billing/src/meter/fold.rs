//! Turns facts into intervals. Time only goes forward: whatever a clock does, a moment is billed at
//! most once, with the state in which the host's clock passed it first.

use std::collections::BTreeMap;

use super::{FactKind, StorageFact, UsageFact, UsageInterval};

/// Returns the billed intervals of one sandbox, in order and without overlap. `facts` are all facts
/// of its life, in any order and any number of copies.
///
/// A running or paused sandbox is billed up to the next fact of the same machine. If a new machine
/// follows, or nothing, it is billed up to the last heartbeat: a crash costs nothing after the last
/// confirmed moment. A sleeping sandbox needs no heartbeat and is billed up to `now_ns`.
pub fn fold_usage(facts: impl IntoIterator<Item = UsageFact>, now_ns: u64) -> Vec<UsageInterval> {
    let mut life = BTreeMap::new();
    for fact in facts {
        let slot = life.entry((fact.epoch, fact.sequence)).or_insert(fact);
        *slot = slot.merged(fact);
    }
    let mut clock = ForwardClock::default();
    let mut following = life.values().skip(1);
    let intervals = life.values().filter_map(|fact| {
        let next = following.next();
        let (from_ns, to_ns) = clock.pass(fact.at_ns, end_of(fact, next, now_ns));
        billed(fact, from_ns, to_ns)
    });
    intervals.collect()
}

/// Returns the billed intervals of one volume, in order and without overlap.
pub fn fold_storage(facts: impl IntoIterator<Item = StorageFact>, now_ns: u64) -> Vec<UsageInterval> {
    let mut life = BTreeMap::new();
    for fact in facts {
        let slot = life.entry(fact.sequence).or_insert(fact);
        *slot = StorageFact { at_ns: slot.at_ns.min(fact.at_ns), bytes: slot.bytes.min(fact.bytes), ..fact };
    }
    let mut clock = ForwardClock::default();
    let mut following = life.values().skip(1);
    let intervals = life.values().filter_map(|fact| {
        let end_ns = following.next().map_or(now_ns, |next| next.at_ns);
        let (from_ns, to_ns) = clock.pass(fact.at_ns, end_ns);
        let interval = UsageInterval { vcpus: 0, memory_mib: 0, storage_bytes: fact.bytes, from_ns, to_ns };
        (fact.bytes > 0 && from_ns < to_ns).then_some(interval)
    });
    intervals.collect()
}

/// Returns the moment up to which the state after a fact is known to have lasted.
fn end_of(fact: &UsageFact, next: Option<&UsageFact>, now_ns: u64) -> u64 {
    let confirmed_ns = fact.seen_ns.max(fact.at_ns);
    match (fact.kind, next) {
        (FactKind::Hibernated, None) => now_ns,
        (FactKind::Hibernated, Some(next)) => next.at_ns,
        (_, Some(next)) if next.epoch == fact.epoch && next.kind.continues() => next.at_ns.max(confirmed_ns),
        _ => confirmed_ns,
    }
}

/// Returns what is billed in the state after a fact.
fn billed(fact: &UsageFact, from_ns: u64, to_ns: u64) -> Option<UsageInterval> {
    let (vcpus, memory_mib, storage_bytes) = match fact.kind {
        FactKind::Started | FactKind::Woken | FactKind::Resumed | FactKind::Resized => {
            (fact.vcpus, fact.memory_mib, fact.storage_bytes)
        }
        FactKind::Paused => (0, fact.memory_mib, fact.storage_bytes),
        FactKind::Hibernated => (0, 0, fact.storage_bytes),
        FactKind::Ended => return None,
    };
    let used = vcpus > 0 || memory_mib > 0 || storage_bytes > 0;
    (used && from_ns < to_ns).then_some(UsageInterval { vcpus, memory_mib, storage_bytes, from_ns, to_ns })
}

/// A clock that never goes back: it stands still until the host's clock has caught up.
#[derive(Default)]
struct ForwardClock {
    passed_ns: u64,
}

impl ForwardClock {
    /// Passes a state that began and ended at these times of the host's clock. Returns the part of
    /// it that was not passed before.
    fn pass(&mut self, began_ns: u64, ended_ns: u64) -> (u64, u64) {
        let from_ns = began_ns.max(self.passed_ns);
        let to_ns = ended_ns.max(from_ns);
        self.passed_ns = to_ns;
        (from_ns, to_ns)
    }
}
