//! Descriptors that the runtime watches for readiness.

use std::{io, os::fd::OwnedFd};

use tokio::io::unix::AsyncFd;

/// A descriptor that can be awaited.
pub(crate) type AsyncDescriptor = AsyncFd<OwnedFd>;

/// Registers a descriptor with the runtime. It must be non-blocking.
///
/// The call is deprecated because it also accepts types that do not own their descriptor. An
/// `OwnedFd` does own it, and the proposed replacement is `unsafe`, which this room does not use.
#[expect(deprecated)]
pub(crate) fn watch(fd: OwnedFd) -> io::Result<AsyncDescriptor> {
    AsyncFd::new(fd)
}
