//! What an operator may choose about a host.

use std::time::Duration;

use pandastack_model::Bytes;

/// Checked settings of one host.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// Standby machines kept for each template that is in use.
    pub standby: usize,
    /// From a create's start to the guest's first answer.
    pub launch_deadline: Duration,
    /// Creates are refused when less than this is free on the data volume.
    pub disk_reserve: Bytes,
}

impl Default for HostSettings {
    fn default() -> Self {
        Self { standby: 2, launch_deadline: Duration::from_secs(20), disk_reserve: Bytes::mib(256) }
    }
}
