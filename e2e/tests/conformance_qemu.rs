//! The shared conformance suite on real QEMU machines, restored from the baked template `mini`.

use std::{io, path::PathBuf};

use async_trait::async_trait;
use bytes::BytesMut;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_e2e::Rig;
use pandastack_vmm::{Driver, LayerFiles, Link, Machine, MachineSpec, conformance::DriverUnderTest, conformance_tests};
use pandastack_wire_guest::{Decoder, Frame, FrameKind, GENERATION, Hello, Message, ReadFile, WriteFile};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// File with the suite's text, on the guest's root disk.
const NOTE: &str = "/var/conformance-note";

struct QemuSubject(Rig);

impl QemuSubject {
    async fn start() -> Self {
        Self(Rig::start().await)
    }

    /// Does the handshake, sends the request's frames in the same write, and returns its first
    /// answer and the following frames.
    async fn ask(&self, mut link: Box<dyn Link>, request: &[Frame]) -> io::Result<Vec<Frame>> {
        let secret = &self.0.layer.manifest.link_secret;
        let secret =
            (0..secret.len()).step_by(2).map(|at| u8::from_str_radix(&secret[at..at + 2], 16).unwrap()).collect();
        let mut out = BytesMut::new();
        Hello { generation: GENERATION, secret }.frame(0).encode(&mut out);
        request.iter().for_each(|frame| frame.encode(&mut out));
        link.write_all(&out).await?;
        let (mut decoder, mut frames) = (Decoder::default(), Vec::new());
        loop {
            while let Some(frame) = decoder.next_frame().map_err(io::Error::other)? {
                let last = frame.kind == FrameKind::Written || frame.kind == FrameKind::Error || frame.flags.is_end();
                frames.push(frame);
                if last {
                    assert_eq!(frames.remove(0).kind, FrameKind::Welcome);
                    return Ok(frames);
                }
            }
            if link.read_buf(decoder.buffer()).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

#[async_trait]
impl DriverUnderTest for QemuSubject {
    fn driver(&self) -> &dyn Driver {
        &self.0.driver
    }

    async fn place(&self) -> MachineSpec {
        self.0.place().await
    }

    fn layer(&self) -> LayerFiles {
        self.0.layer.files.clone()
    }

    fn scratch(&self, name: &str) -> PathBuf {
        self.0.folder().join(name)
    }

    async fn write(&self, link: Box<dyn Link>, text: &str) -> io::Result<()> {
        let write = WriteFile { path: NOTE.to_owned(), mode: None }.frame(1);
        let data = Frame::new(1, FrameKind::Data, text.as_bytes().to_vec()).end();
        let answer = self.ask(link, &[write, data]).await?;
        assert_eq!(answer.last().map(|frame| frame.kind), Some(FrameKind::Written), "{answer:?}");
        Ok(())
    }

    async fn read(&self, link: Box<dyn Link>) -> io::Result<Option<String>> {
        let answer = self.ask(link, &[ReadFile { path: NOTE.to_owned() }.frame(1)]).await?;
        let text = answer
            .iter()
            .filter(|frame| frame.kind == FrameKind::Data)
            .flat_map(|frame| frame.payload.to_vec())
            .collect();
        Ok((answer[0].kind == FrameKind::Meta).then(|| String::from_utf8(text).unwrap()))
    }

    async fn kill(&self, machine: &dyn Machine) {
        kill(Pid::from_raw(machine.pid().unwrap() as i32), Signal::SIGKILL).unwrap();
    }

    fn live(&self) -> usize {
        self.0.live()
    }

    async fn close(self) {
        self.0.close().await;
    }
}

conformance_tests!(QemuSubject::start);
