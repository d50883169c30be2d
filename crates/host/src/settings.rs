//! The settings of a host that an operator can choose.

use std::{collections::BTreeMap, fmt, ops::RangeInclusive, sync::Arc, time::Duration};

use pandastack_model::{ByteSize, TemplateName};
use pandastack_wire_fleet::GatewayService;

use crate::steady::ClockSource;

/// Bounds of the default of `fork_parallel`.
const FORK_PARALLEL: RangeInclusive<usize> = 2..=8;

/// Default of `heartbeat_every`.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(10);

/// Checked settings of one host.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// Machines kept ready for each template: restored, primed, paused.
    pub standby: usize,
    /// Blank processes kept for each size of machine in use. A fork, a wake and a create without a
    /// standby machine start from one.
    pub blanks: usize,
    /// Numbers of standby machines for single templates, instead of `standby`.
    pub warm: BTreeMap<TemplateName, usize>,
    /// Time limit for a resumed guest to answer its greeting.
    pub launch_deadline: Duration,
    /// A slower exchange may leave a guest's clock late by as much, so the clock is set again.
    pub clock_exchange_max: Duration,
    /// Creates are refused when less than this is free on the data volume.
    pub disk_reserve: ByteSize,
    /// Creates are refused when less than this would stay free of the host's memory.
    pub memory_reserve: ByteSize,
    /// Limit of promised guest memory, as a percentage of the host's memory.
    pub overcommit_percent: u64,
    /// Children of one fork that are restored at the same time. The default is the number of CPUs,
    /// within bounds: a restore is mostly the guest's first answer, which keeps one CPU busy.
    pub fork_parallel: usize,
    /// Interval between two audits.
    pub audit_every: Duration,
    /// Interval between two heartbeats of usage. A lost machine is billed up to its last one.
    pub heartbeat_every: Duration,
    /// Source of the host's memory figures, instead of the kernel.
    pub memory: Option<MemorySource>,
    /// Source of the clocks that usage is metered by.
    pub clocks: ClockSource,
    /// Serves guests at their gateway.
    pub gateway: Option<Arc<dyn GatewayService>>,
}

/// Source of the host's total and available memory.
#[derive(Clone)]
pub struct MemorySource(Arc<dyn Fn() -> (ByteSize, ByteSize) + Send + Sync>);

impl MemorySource {
    /// Makes a source from a function, which is called each time.
    pub fn new(look: impl Fn() -> (ByteSize, ByteSize) + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }

    /// Returns total and available memory.
    pub fn look(&self) -> (ByteSize, ByteSize) {
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
            clock_exchange_max: Duration::from_millis(100),
            disk_reserve: ByteSize::mib(256),
            memory_reserve: ByteSize::mib(512),
            overcommit_percent: 400,
            fork_parallel: fork_parallel(std::thread::available_parallelism().map_or(1, usize::from)),
            audit_every: Duration::from_secs(3600),
            heartbeat_every: HEARTBEAT_EVERY,
            memory: None,
            clocks: ClockSource::kernel(),
            gateway: None,
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
