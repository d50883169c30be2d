//! The form of an error at the guest's door, for every operation.

use pandastack_wire_guest::{Error, ErrorKind, Frame, Message};

/// A failed request as the host sees it.
#[derive(Debug)]
pub(crate) struct GuestFault {
    kind: ErrorKind,
    text: String,
}

impl GuestFault {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// Describes an error together with its causes.
    pub(crate) fn describe(kind: ErrorKind, error: &dyn std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(deeper) = cause {
            text.push_str(": ");
            text.push_str(&deeper.to_string());
            cause = deeper.source();
        }
        Self { kind, text }
    }

    /// Makes a fault for a request that is not valid.
    pub(crate) fn invalid(error: &dyn std::error::Error) -> Self {
        Self::describe(ErrorKind::Invalid, error)
    }

    /// Puts the failure into the terminal frame of a channel.
    pub(crate) fn frame(self, channel: u32) -> Frame {
        Error { kind: self.kind, text: self.text }.frame(channel)
    }
}

/// Maps a system error to the kinds of the protocol.
pub(crate) fn kind_of(error: &std::io::Error) -> ErrorKind {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH | libc::ENXIO | libc::ENODEV) => ErrorKind::Missing,
        Some(libc::ENOTDIR | libc::EISDIR) => ErrorKind::WrongType,
        Some(libc::EACCES | libc::EPERM | libc::EROFS | libc::ETXTBSY | libc::EBUSY) => ErrorKind::Denied,
        Some(libc::ENOSPC | libc::EDQUOT | libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::EAGAIN) => {
            ErrorKind::Full
        }
        Some(libc::EINVAL | libc::ENAMETOOLONG | libc::ELOOP | libc::E2BIG) => ErrorKind::Invalid,
        _ => ErrorKind::Failed,
    }
}
