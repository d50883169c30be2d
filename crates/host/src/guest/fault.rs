//! Converts errors of the link and of the guest into faults for the caller.

use pandastack_model::{Fault, FaultKind};
use pandastack_wire_guest::{Error, ErrorKind, Frame, FrameKind, Message};

use super::session::LinkError;

/// Converts the guest's error. Its text comes from an untrusted guest and reaches only that guest's
/// owner.
pub fn guest_fault(error: Error) -> Fault {
    let (kind, code) = match error.kind {
        ErrorKind::Invalid => (FaultKind::Caller, "request.invalid"),
        ErrorKind::Missing => (FaultKind::Missing, "path.not_found"),
        ErrorKind::WrongType => (FaultKind::Caller, "path.wrong_type"),
        ErrorKind::Denied => (FaultKind::Conflict, "path.denied"),
        ErrorKind::Full => (FaultKind::Storage, "sandbox.disk_full"),
        ErrorKind::Failed => (FaultKind::Conflict, "guest.failed"),
        ErrorKind::Secret => (FaultKind::Bug, "internal"),
        ErrorKind::Cancelled => (FaultKind::Conflict, "request.cancelled"),
    };
    Fault::new(kind, code, error.text)
}

impl From<LinkError> for Fault {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Busy => Fault::new(
                FaultKind::Quota,
                "sandbox.too_many_requests",
                "too many requests at once in this sandbox; wait until some have ended",
            ),
            LinkError::Retired => {
                Fault::new(FaultKind::Conflict, "sandbox.changing", "the sandbox is being hibernated; try again")
            }
            LinkError::TooOld => Fault::new(
                FaultKind::Conflict,
                "guest.too_old",
                "the agent in this sandbox is too old for this request; create a new sandbox",
            ),
            LinkError::Deadline => Fault::new(FaultKind::Unavailable, "guest.silent", "the sandbox did not respond"),
            LinkError::Closed | LinkError::Io(_) => {
                Fault::new(FaultKind::Unavailable, "guest.lost", "the sandbox's machine ended during the request")
                    .with_detail(error)
            }
            LinkError::Frame(_)
            | LinkError::Unexpected { .. }
            | LinkError::Message(_)
            | LinkError::Refused(_)
            | LinkError::Overrun { .. }
            | LinkError::Generation(_) => {
                Fault::new(FaultKind::Unavailable, "guest.confused", "the sandbox's agent sent an invalid response")
                    .with_detail(error)
            }
        }
    }
}

/// Checks the kind of a reply. Errors from the guest and unexpected kinds become faults.
pub(super) fn reply(frame: Frame, wanted: FrameKind) -> Result<Frame, Fault> {
    match frame.kind {
        kind if kind == wanted => Ok(frame),
        FrameKind::Error => Err(match Error::parse(&frame.payload) {
            Ok(error) => guest_fault(error),
            Err(error) => LinkError::from(error).into(),
        }),
        found => Err(LinkError::Unexpected { wanted, found }.into()),
    }
}

/// Parses a reply's message.
pub(super) fn parse<M: Message>(frame: Frame) -> Result<M, Fault> {
    let frame = reply(frame, M::KIND)?;
    M::parse(&frame.payload).map_err(|error| LinkError::from(error).into())
}
