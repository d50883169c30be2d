//! Protocol of a kernel's control socket. The kernel runs user code, so its answers are not
//! trusted: malformed answers are errors, and lengths are checked before data is kept. Request:
//! `<number> <length>[ <trace>]\n` and the code. Answer: `<number> <exit> <length>\n` and JSON.
//! Request 0 is for warm kernels: `kernels/warm.py` describes it.

use std::{
    io::{self, IoSlice},
    os::fd::{AsRawFd, BorrowedFd},
};

use bytes::{Buf, Bytes, BytesMut};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use pandastack_wire_guest::CODE_BODY_BYTES_MAX;
use tokio::{io::Interest, net::UnixStream};

use crate::limits;

/// A kernel's answer to a cell. Cell 0 is its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CellReply {
    pub(super) number: u64,
    pub(super) exit: i32,
    pub(super) body: Bytes,
}

/// A control socket that is no longer usable.
#[derive(Debug, thiserror::Error)]
pub(super) enum ControlSocketError {
    #[error("the kernel closed its control socket")]
    Closed,
    #[error("the kernel sent invalid data on its control socket")]
    Nonsense,
    #[error("the control socket failed")]
    Io(#[from] io::Error),
}

/// Code to run, and its trace.
pub(super) struct CellRequest<'a> {
    pub(super) code: &'a [u8],
    pub(super) trace: Option<&'a str>,
}

/// The agent's end of the control socket.
pub(super) struct ControlSocket {
    socket: UnixStream,
    out: BytesMut,
    heard: BytesMut,
}

impl ControlSocket {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self { socket, out: BytesMut::new(), heard: BytesMut::new() }
    }

    /// Queues the kernel's program. Call it before any cell.
    pub(super) fn put_program(&mut self, program: &str) {
        self.out.extend_from_slice(format!("{}\n", program.len()).as_bytes());
        self.out.extend_from_slice(program.as_bytes());
    }

    /// Queues a cell. It is written while `reply` waits for the answer.
    pub(super) fn put_cell(&mut self, number: u64, cell: &CellRequest<'_>) {
        let CellRequest { code, trace } = cell;
        let trace = trace.filter(|trace| is_word(trace)).map(|trace| format!(" {trace}")).unwrap_or_default();
        self.out.extend_from_slice(format!("{number} {}{trace}\n", code.len()).as_bytes());
        self.out.extend_from_slice(code);
    }

    /// Asks a warm kernel for a copy of itself that gets these descriptors.
    pub(super) async fn ask_copy(&mut self, descriptors: [BorrowedFd<'_>; 3], request: &[u8]) -> io::Result<()> {
        let numbers = descriptors.map(|descriptor| descriptor.as_raw_fd());
        let rights = [ControlMessage::ScmRights(&numbers)];
        let send = || {
            let (socket, bytes) = (self.socket.as_raw_fd(), [IoSlice::new(b"c")]);
            Ok(sendmsg::<()>(socket, &bytes, &rights, MsgFlags::MSG_NOSIGNAL, None)?)
        };
        self.socket.async_io(Interest::WRITABLE, send).await?;
        self.out.extend_from_slice(format!("{}\n", request.len()).as_bytes());
        self.out.extend_from_slice(request);
        while !self.out.is_empty() {
            self.socket.writable().await?;
            self.write()?;
        }
        Ok(())
    }

    /// Writes as much as the socket takes.
    fn write(&mut self) -> io::Result<()> {
        match self.socket.try_write(&self.out) {
            Ok(count) => self.out.advance(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Waits for the next answer. Cancel-safe.
    pub(super) async fn reply(&mut self) -> Result<CellReply, ControlSocketError> {
        loop {
            if let Some(reply) = next_reply(&mut self.heard)? {
                return Ok(reply);
            }
            tokio::select! {
                ready = self.socket.writable(), if !self.out.is_empty() => {
                    ready?;
                    self.write()?;
                }
                ready = self.socket.readable() => {
                    ready?;
                    self.heard.reserve(limits::OUTPUT_CHUNK_BYTES);
                    match self.socket.try_read_buf(&mut self.heard) {
                        Ok(0) => return Err(ControlSocketError::Closed),
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
    }
}

/// Whether a trace may be part of a request line. It comes from the host, and the kernels do not
/// check it.
fn is_word(trace: &str) -> bool {
    (1..=limits::TRACE_BYTES_MAX).contains(&trace.len())
        && trace.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Takes the next complete answer from the received bytes.
fn next_reply(heard: &mut BytesMut) -> Result<Option<CellReply>, ControlSocketError> {
    let Some(end) = heard.iter().take(limits::KERNEL_LINE_BYTES).position(|byte| *byte == b'\n') else {
        return if heard.len() < limits::KERNEL_LINE_BYTES { Ok(None) } else { Err(ControlSocketError::Nonsense) };
    };
    let (number, exit, length) = parse(&heard[..end]).ok_or(ControlSocketError::Nonsense)?;
    if length > CODE_BODY_BYTES_MAX {
        return Err(ControlSocketError::Nonsense);
    }
    if heard.len() < end + 1 + length {
        return Ok(None);
    }
    heard.advance(end + 1);
    Ok(Some(CellReply { number, exit, body: heard.split_to(length).freeze() }))
}

fn parse(line: &[u8]) -> Option<(u64, i32, usize)> {
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let parsed = (words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number, exit code and body.
    type MessageFields<'a> = (u64, i32, &'a [u8]);

    fn check(text: &[u8], expected: Result<Option<MessageFields<'_>>, ()>) {
        let got = next_reply(&mut BytesMut::from(text)).map_err(drop);
        let got = got.map(|reply| reply.map(|reply| (reply.number, reply.exit, reply.body.to_vec())));
        assert_eq!(got, expected.map(|reply| reply.map(|(n, e, b)| (n, e, b.to_vec()))), "{text:?}");
    }

    #[test]
    fn only_a_trace_is_said_as_one() {
        assert!(is_word("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
        for bad in ["", "a b", "a\n9 9", "$(x)", &"0".repeat(limits::TRACE_BYTES_MAX + 1)] {
            assert!(!is_word(bad), "{bad:?}");
        }
    }

    #[test]
    fn answers_are_cut_out_and_nonsense_is_refused() {
        check(b"", Ok(None));
        check(b"1 0", Ok(None));
        check(b"1 0 0\n", Ok(Some((1, 0, b""))));
        check(b"2 -1 3\nabcdef", Ok(Some((2, -1, b"abc"))));
        check(b"2 137 3\nab", Ok(None));
        for bad in [
            &b"\n"[..],
            b"hello\n",
            b"1 2\n",
            b"1 2 3 4\n",
            b"1 2 -3\n",
            b"1 99999999999 0\n",
            b"\xff 0 0\n",
            b"1 0 16777217\n",
        ] {
            check(bad, Err(()));
        }
        check(&[b'1'; 200], Err(()));
    }
}
