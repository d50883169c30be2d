//! One connection from `Hello` to its end: joins the transport (`transport`, `lanes`) to the
//! dispatcher, and decides how it ends.

use std::rc::Rc;

use pandastack_wire_guest::{ErrorKind, FrameKind, GENERATION, Hello, Message, Welcome};
use tokio::{
    net::{TcpStream, tcp::OwnedReadHalf},
    task::JoinSet,
};

use super::{
    dispatch::Dispatcher,
    fault::GuestFault,
    lanes::{self, Lanes},
    transport::{FrameReceiver, ReceiveError},
};
use crate::{Agent, limits};

/// Why a connection ended.
enum ConnectionEnd {
    /// The socket closed or failed.
    Lost,
    /// A rebirth on another connection made this one obsolete.
    Outlived,
    /// The host broke the protocol or does not know the secret.
    Refused(GuestFault),
}

impl From<ReceiveError> for ConnectionEnd {
    fn from(broken: ReceiveError) -> Self {
        match broken {
            ReceiveError::Lost => ConnectionEnd::Lost,
            broken => ConnectionEnd::Refused(GuestFault::invalid(&broken)),
        }
    }
}

/// Serves one connection until it ends, and then ends its work.
pub(super) async fn run(stream: TcpStream, agent: Rc<Agent>) {
    // Without this, a short answer waits for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let (socket, sink) = stream.into_split();
    let (lanes, outlet) = lanes::open();
    let mut writer = JoinSet::new();
    writer.spawn_local(outlet.run(sink));
    let mut inlet = FrameReceiver::new(socket);
    let mut dispatcher = Dispatcher::new(agent.clone(), lanes.clone());
    match converse(&mut inlet, &mut dispatcher, &agent, &lanes).await {
        ConnectionEnd::Refused(fault) => {
            lanes.try_control(fault.frame(0));
            dispatcher.abort().await;
            // The writer ends after the frames of the last sender.
            drop(lanes);
            let _ = tokio::time::timeout(limits::FAREWELL_WITHIN, writer.join_next()).await;
        }
        ConnectionEnd::Lost => {
            writer.shutdown().await;
            dispatcher.finish_after_loss().await;
        }
        ConnectionEnd::Outlived => {
            let close = async {
                writer.shutdown().await;
                // The peer no longer exists, so a reset replaces the orderly close.
                let socket = inlet.into_socket();
                let _ = socket.as_ref().set_zero_linger();
                drop(socket);
            };
            tokio::join!(close, dispatcher.finish_after_loss());
        }
    }
}

/// Receives frames until the connection ends.
async fn converse(
    inlet: &mut FrameReceiver<OwnedReadHalf>,
    dispatcher: &mut Dispatcher,
    agent: &Agent,
    lanes: &Lanes,
) -> ConnectionEnd {
    let greeted = tokio::time::timeout(limits::HELLO_WITHIN, greet(inlet, agent, lanes)).await;
    if let Err(end) = greeted.unwrap_or(Err(ConnectionEnd::Lost)) {
        return end;
    }
    loop {
        loop {
            match inlet.ready() {
                // Sent before the seal and read after it: the frame was meant for the source.
                Ok(Some(_)) if dispatcher.is_outlived() => return ConnectionEnd::Outlived,
                Ok(Some(frame)) => {
                    if let Err(fault) = dispatcher.accept(frame).await {
                        return ConnectionEnd::Refused(fault);
                    }
                }
                Ok(None) => break,
                Err(broken) => return broken.into(),
            }
        }
        if dispatcher.is_outlived() {
            return ConnectionEnd::Outlived;
        }
        tokio::select! {
            received = inlet.fill() => {
                if let Err(broken) = received {
                    return broken.into();
                }
            }
            () = agent.reborn.notified() => {}
            () = dispatcher.handler_ended() => {}
        }
    }
}

/// Waits for the first frame, which must be a `Hello` with our secret.
async fn greet(inlet: &mut FrameReceiver<OwnedReadHalf>, agent: &Agent, lanes: &Lanes) -> Result<(), ConnectionEnd> {
    let frame = inlet.next().await?;
    if frame.kind != FrameKind::Hello {
        return Err(ConnectionEnd::Refused(GuestFault::new(ErrorKind::Invalid, "the first frame must be Hello")));
    }
    let hello = Hello::parse(&frame.payload).map_err(|error| ConnectionEnd::Refused(GuestFault::invalid(&error)))?;
    if !agent.knows(&hello.secret) {
        return Err(ConnectionEnd::Refused(GuestFault::new(ErrorKind::Secret, "wrong secret")));
    }
    inlet.trust();
    let agent = env!("CARGO_PKG_VERSION").to_owned();
    lanes.control(Welcome { generation: GENERATION, agent }.frame(frame.channel)).await;
    Ok(())
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
