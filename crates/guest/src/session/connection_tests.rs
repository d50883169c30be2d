//! Tests of `connection`: a whole agent behind a socket on loopback.

use pandastack_wire_guest::{Decoder, Error, Frame, PathMessage, WriteFile};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::LocalSet,
};

use super::*;
use crate::rebirth::RecordingSystem;

/// The host's end of a connection.
struct Client {
    socket: TcpStream,
    decoder: Decoder,
}

impl Client {
    async fn send(&mut self, frames: &[Frame]) {
        let mut bytes = bytes::BytesMut::new();
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        self.socket.write_all(&bytes).await.unwrap();
    }

    /// Returns the next frame; `None` once the agent has hung up.
    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return Some(frame);
            }
            if matches!(self.socket.read_buf(self.decoder.buffer()).await, Ok(0) | Err(_)) {
                return None;
            }
        }
    }

    /// Expects an error and then the end.
    async fn is_refused(&mut self, kind: ErrorKind) {
        let frame = self.next().await.unwrap();
        assert_eq!(Error::parse(&frame.payload).unwrap().kind, kind);
        assert_eq!(self.next().await, None, "the connection is over");
    }
}

/// Runs a test's body with one connection to an agent, which must have ended when the body returns.
fn with_connection(body: impl AsyncFnOnce(&Rc<Agent>, Client)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let agent = Agent::new(b"secret".to_vec(), 0, Box::new(RecordingSystem::default())).unwrap();
    runtime.block_on(LocalSet::new().run_until(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let served = tokio::task::spawn_local(run(stream, agent.clone()));
        body(&agent, Client { socket, decoder: Decoder::default() }).await;
        tokio::time::timeout(limits::HELLO_WITHIN, served).await.expect("the connection ends").unwrap();
    }));
}

fn hello(secret: &[u8]) -> Frame {
    Hello { generation: GENERATION, secret: secret.to_vec() }.frame(0)
}

#[test]
fn requests_that_come_with_hello_are_answered() {
    with_connection(async |_, mut client| {
        let stat = |channel| PathMessage { path: "/".to_owned() }.frame(channel, FrameKind::Stat);
        client.send(&[hello(b"secret"), stat(3), stat(4)]).await;
        let kinds = [client.next().await, client.next().await, client.next().await];
        let kinds = kinds.map(|frame| frame.map(|frame| (frame.channel, frame.kind)));
        assert_eq!(kinds, [Some((0, FrameKind::Welcome)), Some((3, FrameKind::Meta)), Some((4, FrameKind::Meta))]);
    });
}

#[test]
fn a_wrong_secret_is_refused() {
    with_connection(async |_, mut client| {
        client.send(&[hello(b"other")]).await;
        client.is_refused(ErrorKind::Secret).await;
    });
}

#[test]
fn another_first_frame_is_refused() {
    with_connection(async |_, mut client| {
        client.send(&[Frame::new(1, FrameKind::Ping, bytes::Bytes::new())]).await;
        client.is_refused(ErrorKind::Invalid).await;
    });
}

#[test]
fn a_long_frame_before_hello_is_refused_by_its_header() {
    with_connection(async |_, mut client| {
        let long = hello(&vec![0; limits::HELLO_BYTES_MAX]);
        client.socket.write_all(&long.header()).await.unwrap();
        client.is_refused(ErrorKind::Invalid).await;
    });
}

#[test]
fn a_breach_of_the_protocol_ends_what_runs() {
    with_connection(async |agent, mut client| {
        // Writes wait while file systems are frozen.
        agent.frozen.set(true);
        let write = WriteFile { path: "/nowhere/at/all".to_owned(), mode: None }.frame(1);
        client.send(&[hello(b"secret"), write.clone(), write]).await;
        assert_eq!(client.next().await.map(|frame| frame.kind), Some(FrameKind::Welcome));
        client.is_refused(ErrorKind::Invalid).await;
    });
}

#[test]
fn a_lost_connection_ends_its_requests() {
    with_connection(async |agent, mut client| {
        agent.frozen.set(true);
        client.send(&[hello(b"secret"), WriteFile { path: "/nowhere/at/all".to_owned(), mode: None }.frame(1)]).await;
        assert_eq!(client.next().await.map(|frame| frame.kind), Some(FrameKind::Welcome));
        drop(client);
    });
}
