//! Volumes in a guest: mounts them, and grows their file systems.

use pandastack_model::{Fault, FaultKind};
use pandastack_wire_guest::{Error, ErrorKind, FrameKind, Message, VolumeDevices};

use super::{
    fault::{guest_fault, reply},
    limits::REQUEST_DEADLINE,
    session::{GuestSession, LinkError},
};

/// Makes the guest mount volumes.
pub async fn mount(session: &GuestSession, volumes: &VolumeDevices) -> Result<(), Fault> {
    ask(session, volumes, FrameKind::Mount).await
}

/// Makes the guest grow the file systems of volumes that have grown.
pub async fn grow(session: &GuestSession, volumes: &VolumeDevices) -> Result<(), Fault> {
    ask(session, volumes, FrameKind::Grow).await
}

async fn ask(session: &GuestSession, volumes: &VolumeDevices, kind: FrameKind) -> Result<(), Fault> {
    let mut channel = session.channel()?;
    channel.send(volumes.frame(channel.number(), kind)).await?;
    let frame = tokio::time::timeout(REQUEST_DEADLINE, channel.next()).await.map_err(|_| LinkError::Deadline)??;
    channel.finish();
    match frame.kind {
        FrameKind::Error => {
            Err(Error::parse(&frame.payload).map_or_else(|error| LinkError::from(error).into(), refusal))
        }
        _ => reply(frame, FrameKind::Done).map(drop),
    }
}

/// A path that is a file is the caller's mistake and keeps the guest's text. Other errors mean that
/// the volume cannot be used.
fn refusal(error: Error) -> Fault {
    match error.kind {
        ErrorKind::WrongType | ErrorKind::Invalid => Fault::new(FaultKind::Caller, "volume.path", error.text),
        ErrorKind::Full => guest_fault(error),
        _ => {
            let text = format!("the sandbox cannot use the volume: {}", error.text);
            Fault::new(FaultKind::Conflict, "volume.unusable", text)
        }
    }
}
