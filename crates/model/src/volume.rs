//! A sandbox's use of a volume.

use crate::VolumeId;

/// The sizes of all volumes together may be this many times the size of the data volume, because
/// volumes are rarely full.
pub const VOLUMES_OVERCOMMIT: u64 = 3;

/// One volume in one sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeMount {
    pub volume: VolumeId,
    /// Mount point in the guest: absolute, without `.` or `..`, not the root.
    pub path: String,
    pub access: VolumeAccess,
}

/// How a sandbox may use a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeAccess {
    /// Any number of sandboxes at once.
    ReadOnly,
    /// One sandbox at a time, without readers.
    ReadWrite,
}
