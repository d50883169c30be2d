//! Descriptors that the runtime watches for readiness.

use std::{io, os::fd::OwnedFd};

use tokio::io::unix::AsyncFd;

/// A descriptor that can be awaited.
pub(crate) type Watched = AsyncFd<OwnedFd>;

/// Has the runtime watch a descriptor, which must not block.
///
/// The call is deprecated because it also takes types that only claim to own their descriptor; an
/// `OwnedFd` does own it, and the proposed replacement is `unsafe`, which this room does not say.
#[expect(deprecated)]
pub(crate) fn watch(fd: OwnedFd) -> io::Result<Watched> {
    AsyncFd::new(fd)
}
