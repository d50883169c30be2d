//! The receiving side of a connection: splits the socket's bytes into frames. Holds one unfinished
//! frame and the bytes received with it. Does not interpret frames. `lanes` is the sending side.

use pandastack_wire_guest::{Decoder, Frame, FrameError};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::limits;

/// Why no more frames arrive.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReceiveError {
    #[error("the socket closed or failed")]
    Lost,
    #[error("frame of {length} bytes before Hello is larger than {}", limits::HELLO_BYTES_MAX)]
    TooLong { length: u32 },
    #[error(transparent)]
    Malformed(#[from] FrameError),
}

/// Receives frames.
pub(super) struct FrameReceiver<R> {
    socket: R,
    decoder: Decoder,
    is_trusted: bool,
}

impl<R: AsyncRead + Unpin> FrameReceiver<R> {
    /// Receives from an unauthenticated peer: frames must be short until `trust`.
    pub(super) fn new(socket: R) -> Self {
        Self { socket, decoder: Decoder::default(), is_trusted: false }
    }

    /// Allows frames of the protocol's full length.
    pub(super) fn trust(&mut self) {
        self.is_trusted = true;
    }

    /// Returns the next frame that is already received.
    pub(super) fn ready(&mut self) -> Result<Option<Frame>, ReceiveError> {
        if let Some(length) = self.decoder.buffer().first_chunk::<4>() {
            let length = u32::from_le_bytes(*length);
            if !self.is_trusted && length as usize > limits::HELLO_BYTES_MAX {
                return Err(ReceiveError::TooLong { length });
            }
        }
        Ok(self.decoder.next_frame()?)
    }

    /// Waits for bytes. Cancel-safe.
    pub(super) async fn fill(&mut self) -> Result<(), ReceiveError> {
        self.decoder.buffer().reserve(limits::RECEIVE_BYTES_MIN);
        match self.socket.read_buf(self.decoder.buffer()).await {
            Ok(0) | Err(_) => Err(ReceiveError::Lost),
            Ok(_) => Ok(()),
        }
    }

    /// Waits for the next frame.
    pub(super) async fn next(&mut self) -> Result<Frame, ReceiveError> {
        loop {
            if let Some(frame) = self.ready()? {
                return Ok(frame);
            }
            self.fill().await?;
        }
    }

    pub(super) fn into_socket(self) -> R {
        self.socket
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use pandastack_wire_guest::FrameKind;
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn frame(channel: u32, bytes: usize) -> Frame {
        Frame::new(channel, FrameKind::Stdin, vec![7; bytes])
    }

    fn encoded(frames: &[Frame]) -> BytesMut {
        let mut bytes = BytesMut::new();
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        bytes
    }

    #[tokio::test(flavor = "current_thread")]
    async fn frames_come_whole_and_in_order() {
        let frames = [frame(1, 0), frame(2, 3000), frame(3, 1)];
        let (mut there, here) = tokio::io::duplex(64);
        let bytes = encoded(&frames);
        let send = async move { there.write_all(&bytes).await.unwrap() };
        let receive = async {
            let mut inlet = FrameReceiver::new(here);
            for expected in &frames {
                assert_eq!(&inlet.next().await.unwrap(), expected);
            }
            assert_eq!(inlet.next().await, Err(ReceiveError::Lost), "the other end has gone");
        };
        tokio::join!(send, receive);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_dropped_wait_loses_nothing() {
        let (mut there, here) = tokio::io::duplex(4096);
        let mut inlet = FrameReceiver::new(here);
        let bytes = encoded(&[frame(1, 100)]);
        let (first, rest) = bytes.split_at(50);
        there.write_all(first).await.unwrap();
        assert_eq!(inlet.fill().await, Ok(()));
        assert_eq!(inlet.ready(), Ok(None));
        // Polled once and dropped, as `select!` does.
        assert!(futures_now(inlet.fill()).is_none());
        there.write_all(rest).await.unwrap();
        assert_eq!(inlet.next().await, Ok(frame(1, 100)));
    }

    fn futures_now<F: Future>(future: F) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(future).poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_stranger_may_send_short_frames_only() {
        let long = frame(1, limits::HELLO_BYTES_MAX + 1);
        for trusted in [false, true] {
            let (mut there, here) = tokio::io::duplex(64 * 1024);
            let mut inlet = FrameReceiver::new(here);
            if trusted {
                inlet.trust();
            }
            there.write_all(&encoded(std::slice::from_ref(&long))).await.unwrap();
            let length = u32::try_from(long.payload.len()).unwrap();
            let expected = if trusted { Ok(long.clone()) } else { Err(ReceiveError::TooLong { length }) };
            assert_eq!(inlet.next().await, expected, "trusted: {trusted}");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_is_no_frame_ends_it() {
        let (mut there, here) = tokio::io::duplex(64);
        let mut inlet = FrameReceiver::new(here);
        inlet.trust();
        there.write_all(&[0xff; 12]).await.unwrap();
        assert_eq!(inlet.next().await, Err(FrameError::Length { length: u32::MAX.into() }.into()));
    }
}
