//! What an operator may choose about a host.

use std::{collections::BTreeMap, fmt, ops::RangeInclusive, sync::Arc, time::Duration};

use pandastack_model::{Bytes, TemplateName};

/// What a fork restores at the same time unless told otherwise, whatever the number of CPUs.
const FORK_PARALLEL: RangeInclusive<usize> = 2..=8;

/// Checked settings of one host.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// Machines kept ready for each template: restored, primed, paused.
    pub standby: usize,
    /// Processes kept waiting for any layer, for each size of machine in use: what a fork, a wake
    /// and a create without a standby machine start from.
    pub blanks: usize,
    /// Other numbers of standby machines for some templates.
    pub warm: BTreeMap<TemplateName, usize>,
    /// From a create's start to the guest's first answer.
    pub launch_deadline: Duration,
    /// Creates are refused when less than this is free on the data volume.
    pub disk_reserve: Bytes,
    /// Creates are refused when less than this would stay free of the host's memory.
    pub memory_reserve: Bytes,
    /// How much guest memory may be promised, in hundredths of the host's.
    pub overcommit_percent: u64,
    /// Children of one fork that are restored at the same time; by default as many as the host has
    /// CPUs, within bounds: each is mostly its guest's first answer, which keeps one CPU busy.
    pub fork_parallel: usize,
    /// Between two audits.
    pub audit_every: Duration,
    /// What to believe about the host's memory instead of what its kernel says.
    pub memory: Option<MemorySource>,
}

/// Tells the host's memory: all of it, and what could be given out.
#[derive(Clone)]
pub struct MemorySource(Arc<dyn Fn() -> (Bytes, Bytes) + Send + Sync>);

impl MemorySource {
    /// Makes a source of a function, which is asked each time.
    pub fn new(look: impl Fn() -> (Bytes, Bytes) + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }

    /// Asks.
    pub fn look(&self) -> (Bytes, Bytes) {
        (self.0)()
    }
}

impl fmt::Debug for MemorySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemorySource").field(&self.look()).finish()
    }
}

impl Default for HostSettings {
    fn default() -> Self {
        Self {
            standby: 2,
            blanks: 2,
            warm: BTreeMap::new(),
            launch_deadline: Duration::from_secs(20),
            disk_reserve: Bytes::mib(256),
            memory_reserve: Bytes::mib(512),
            overcommit_percent: 400,
            fork_parallel: fork_parallel(std::thread::available_parallelism().map_or(1, usize::from)),
            audit_every: Duration::from_secs(3600),
            memory: None,
        }
    }
}

fn fork_parallel(cpus: usize) -> usize {
    cpus.clamp(*FORK_PARALLEL.start(), *FORK_PARALLEL.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_children_are_restored_at_once_as_there_are_cpus_within_bounds() {
        assert_eq!([1, 2, 4, 8, 64].map(fork_parallel), [2, 2, 4, 8, 8]);
    }
}
