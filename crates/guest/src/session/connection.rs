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
    fault::Fault,
    lanes::{self, Lanes},
    transport::{Broken, Inlet},
};
use crate::{Agent, limits};

/// Why a connection ended.
enum End {
    /// The socket closed or failed.
    Lost,
    /// A rebirth on another connection made this one obsolete.
    Outlived,
    /// The host broke the protocol or does not know the secret.
    Refused(Fault),
}

impl From<Broken> for End {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Lost => End::Lost,
            broken => End::Refused(Fault::invalid(&broken)),
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
    let mut inlet = Inlet::new(socket);
    let mut dispatcher = Dispatcher::new(agent.clone(), lanes.clone());
    match converse(&mut inlet, &mut dispatcher, &agent, &lanes).await {
        End::Refused(fault) => {
            lanes.try_control(fault.frame(0));
            dispatcher.abort().await;
            // The writer ends after the frames of the last sender.
            drop(lanes);
            let _ = tokio::time::timeout(limits::FAREWELL_WITHIN, writer.join_next()).await;
        }
        End::Lost => {
            writer.shutdown().await;
            dispatcher.wind_up().await;
        }
        End::Outlived => {
            let close = async {
                writer.shutdown().await;
                // The peer no longer exists, so a reset replaces the orderly close.
                let socket = inlet.into_socket();
                let _ = socket.as_ref().set_zero_linger();
                drop(socket);
            };
            tokio::join!(close, dispatcher.wind_up());
        }
    }
}

/// Receives frames until the connection ends.
async fn converse(inlet: &mut Inlet<OwnedReadHalf>, dispatcher: &mut Dispatcher, agent: &Agent, lanes: &Lanes) -> End {
    let greeted = tokio::time::timeout(limits::HELLO_WITHIN, greet(inlet, agent, lanes)).await;
    if let Err(end) = greeted.unwrap_or(Err(End::Lost)) {
        return end;
    }
    loop {
        loop {
            match inlet.ready() {
                // Sent before the seal and read after it: the frame was meant for the source.
                Ok(Some(_)) if dispatcher.is_outlived() => return End::Outlived,
                Ok(Some(frame)) => {
                    if let Err(fault) = dispatcher.accept(frame).await {
                        return End::Refused(fault);
                    }
                }
                Ok(None) => break,
                Err(broken) => return broken.into(),
            }
        }
        if dispatcher.is_outlived() {
            return End::Outlived;
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
async fn greet(inlet: &mut Inlet<OwnedReadHalf>, agent: &Agent, lanes: &Lanes) -> Result<(), End> {
    let frame = inlet.next().await?;
    if frame.kind != FrameKind::Hello {
        return Err(End::Refused(Fault::new(ErrorKind::Invalid, "the first frame must be Hello")));
    }
    let hello = Hello::parse(&frame.payload).map_err(|error| End::Refused(Fault::invalid(&error)))?;
    if !agent.knows(&hello.secret) {
        return Err(End::Refused(Fault::new(ErrorKind::Secret, "wrong secret")));
    }
    inlet.trust();
    let agent = env!("CARGO_PKG_VERSION").to_owned();
    lanes.control(Welcome { generation: GENERATION, agent }.frame(frame.channel)).await;
    Ok(())
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
