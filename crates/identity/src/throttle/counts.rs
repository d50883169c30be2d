//! Counts of failures by key, in bounded memory: past the bound, the key whose last failure is the
//! oldest is forgotten.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    time::Duration,
};

/// Failures of many keys.
pub(super) struct FailureCounts<K> {
    entries: HashMap<K, FailureCount>,
    /// The keys in the order of their last failures.
    order: BTreeMap<u64, K>,
    turn: u64,
    entries_max: usize,
}

struct FailureCount {
    failures: u32,
    last_ns: u64,
    turn: u64,
}

impl<K: Copy + Eq + Hash> FailureCounts<K> {
    pub fn new(entries_max: usize) -> Self {
        Self { entries: HashMap::new(), order: BTreeMap::new(), turn: 0, entries_max: entries_max.max(1) }
    }

    /// Returns the failures of a key and the time since the last one. A clock that was set back
    /// makes failures old, so that nobody waits for it to catch up.
    pub fn recent(&self, key: &K, now_ns: u64, forgotten_after: Duration) -> (u32, Duration) {
        let Some(count) = self.entries.get(key) else { return (0, Duration::ZERO) };
        let since_last = Duration::from_nanos(now_ns.abs_diff(count.last_ns));
        if since_last >= forgotten_after { (0, since_last) } else { (count.failures, since_last) }
    }

    /// Adds a failure. Returns when the one before was.
    pub fn add(&mut self, key: K, now_ns: u64, forgotten_after: Duration) -> Option<u64> {
        let (failures, _) = self.recent(&key, now_ns, forgotten_after);
        let before_ns = self.entries.get(&key).map(|count| count.last_ns);
        self.clear(&key);
        if self.entries.len() >= self.entries_max
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.turn += 1;
        self.order.insert(self.turn, key);
        let count = FailureCount { failures: failures.saturating_add(1), last_ns: now_ns, turn: self.turn };
        self.entries.insert(key, count);
        before_ns
    }

    /// Takes a failure back that was added at a time. If it is the last one, the one before it is
    /// the last one again.
    pub fn take_back(&mut self, key: &K, added_ns: u64, before_ns: Option<u64>) {
        let Some(count) = self.entries.get_mut(key) else { return };
        count.failures = count.failures.saturating_sub(1);
        if count.last_ns == added_ns {
            count.last_ns = before_ns.unwrap_or(added_ns);
        }
        if count.failures == 0 {
            self.clear(key);
        }
    }

    pub fn clear(&mut self, key: &K) {
        if let Some(count) = self.entries.remove(key) {
            self.order.remove(&count.turn);
        }
    }

    /// Counts the remembered keys.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        assert_eq!(self.entries.len(), self.order.len());
        self.entries.len()
    }
}
