//! How a sandbox uses a volume.

use crate::VolumeId;

/// How much room all volumes together may be promised, in times of what the data volume has: they
/// are rarely full.
pub const VOLUMES_OVERCOMMIT: u64 = 3;

/// One volume in one sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeMount {
    pub volume: VolumeId,
    /// Where it is mounted in the guest: absolute, without `.` or `..`, not the root.
    pub path: String,
    pub access: Access,
}

/// What a sandbox may do with a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Any number of sandboxes at once.
    ReadOnly,
    /// One sandbox at a time, and no reader beside it.
    ReadWrite,
}
