//! One connection from the handshake to its end. Everything runs inside one future, so that a
//! paused machine does nothing.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use pandastack_wire_guest::{
    CODE_SINCE, Decoder, Error, ErrorKind, Frame, FrameKind, GENERATION, GuestUsage, Hello, Message, PortList,
    PortReport, Rebirth, Reborn, StartProcess, VolumeDevices, Welcome,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf},
    sync::mpsc,
};

use super::{
    HandshakeBehaviour, ScriptedGuest,
    channel::{FakeChannel, LinkOutput},
    code, files, locked, programs, watching,
};

/// Capacity of the queues to the link and to a channel.
const QUEUE: usize = 64;

/// Whether the connection continues after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterRequest {
    GoOn,
    HangUp,
}

pub(super) async fn serve(guest: &ScriptedGuest, link: DuplexStream) {
    let (read, write) = tokio::io::split(link);
    let (out, queue) = mpsc::channel(QUEUE);
    tokio::join!(listen(guest, read, out), speak(write, queue));
}

async fn speak(mut write: WriteHalf<DuplexStream>, mut queue: mpsc::Receiver<LinkOutput>) {
    while let Some(out) = queue.recv().await {
        let mut bytes = BytesMut::new();
        match out {
            LinkOutput::Frame(frame) => frame.encode(&mut bytes),
            LinkOutput::Raw(raw) => bytes.extend_from_slice(&raw),
        }
        if write.write_all(&bytes).await.is_err() {
            return;
        }
    }
    let _ = write.shutdown().await;
}

/// Reads the next frame. Cancel-safe: read bytes stay in the decoder.
async fn next_frame(read: &mut ReadHalf<DuplexStream>, decoder: &mut Decoder) -> Option<Frame> {
    loop {
        if let Some(frame) = decoder.next_frame().ok()? {
            return Some(frame);
        }
        if read.read_buf(decoder.buffer()).await.ok()? == 0 {
            return None;
        }
    }
}

async fn listen(guest: &ScriptedGuest, mut read: ReadHalf<DuplexStream>, out: mpsc::Sender<LinkOutput>) {
    let mut decoder = Decoder::default();
    let Some(hello) = next_frame(&mut read, &mut decoder).await else { return };
    if greet(guest, &hello, &out).await == AfterRequest::HangUp {
        return;
    }
    if guest.script.manner() == HandshakeBehaviour::Silent {
        while next_frame(&mut read, &mut decoder).await.is_some() {}
        return;
    }
    let mut work = FuturesUnordered::new();
    let mut inputs: HashMap<u32, mpsc::Sender<Frame>> = HashMap::new();
    loop {
        let frame = tokio::select! {
            frame = next_frame(&mut read, &mut decoder) => frame,
            Some(verdict) = work.next() => match verdict {
                AfterRequest::GoOn => continue,
                AfterRequest::HangUp => return,
            },
        };
        let Some(frame) = frame else { return };
        inputs.retain(|_, input| !input.is_closed());
        match inputs.get(&frame.channel) {
            // A program that does not read its input loses it. The host keeps to its window in the
            // tests.
            Some(input) => drop(input.try_send(frame)),
            None => {
                let (input, rx) = mpsc::channel(QUEUE);
                inputs.insert(frame.channel, input);
                let channel = FakeChannel::new(frame.channel, out.clone(), rx, guest.script.clone());
                work.push(answer(guest, frame, channel));
            }
        }
    }
}

/// Answers the first frame of a connection as the script says.
async fn greet(guest: &ScriptedGuest, frame: &Frame, out: &mpsc::Sender<LinkOutput>) -> AfterRequest {
    let known = match guest.script.manner() {
        HandshakeBehaviour::OtherSecret => b"somebody else's".to_vec(),
        _ => locked(&guest.secret).clone(),
    };
    let right = Hello::parse(&frame.payload).is_ok_and(|hello| hello.secret == known);
    let (answer, verdict) = match guest.script.manner() {
        HandshakeBehaviour::Silent => return AfterRequest::GoOn,
        HandshakeBehaviour::HangsUp => return AfterRequest::HangUp,
        HandshakeBehaviour::Garbage => (LinkOutput::Raw(vec![0xff; 64]), AfterRequest::GoOn),
        HandshakeBehaviour::OffTopic => {
            (LinkOutput::Frame(Frame::new(0, FrameKind::Done, Bytes::new())), AfterRequest::GoOn)
        }
        HandshakeBehaviour::FromTheFuture => (welcome(GENERATION + 98), AfterRequest::GoOn),
        manner @ (HandshakeBehaviour::Good
        | HandshakeBehaviour::OtherSecret
        | HandshakeBehaviour::RefusesRebirth
        | HandshakeBehaviour::Older)
            if right =>
        {
            guest.script.note_welcome();
            (welcome(if manner == HandshakeBehaviour::Older { CODE_SINCE - 1 } else { GENERATION }), AfterRequest::GoOn)
        }
        HandshakeBehaviour::Good
        | HandshakeBehaviour::OtherSecret
        | HandshakeBehaviour::RefusesRebirth
        | HandshakeBehaviour::Older => {
            let refusal = Error { kind: ErrorKind::Secret, text: "the secret is wrong".to_owned() };
            (LinkOutput::Frame(refusal.frame(0)), AfterRequest::HangUp)
        }
    };
    let _ = out.send(answer).await;
    verdict
}

fn welcome(generation: u32) -> LinkOutput {
    LinkOutput::Frame(Welcome { generation, agent: "fake".to_owned() }.frame(0))
}

/// Serves one request up to its terminal frame.
fn answer(guest: &ScriptedGuest, frame: Frame, mut channel: FakeChannel) -> BoxFuture<'_, AfterRequest> {
    async move {
        let users = matches!(
            frame.kind,
            FrameKind::Start
                | FrameKind::Read
                | FrameKind::Write
                | FrameKind::CodeRun
                | FrameKind::Watch
                | FrameKind::Attach
        );
        let _work = users.then(|| guest.script.begin());
        match frame.kind {
            FrameKind::Rebirth => return take_new_life(guest, &frame, &channel).await,
            FrameKind::Ping => channel.send(Frame::new(channel.number, FrameKind::Pong, Bytes::new())).await,
            FrameKind::Quiesce | FrameKind::Thaw => {
                guest.script.note_quiet(frame.kind);
                channel.send(Frame::new(channel.number, FrameKind::Done, Bytes::new())).await;
            }
            FrameKind::Mount | FrameKind::Grow => take_volumes(guest, &frame, &channel).await,
            FrameKind::Ports => channel.say(PortList { ports: vec![port()] }).await,
            FrameKind::Measure => channel.say(figures()).await,
            FrameKind::Start => match StartProcess::parse(&frame.payload) {
                Ok(start) => return programs::run(start, channel).await,
                Err(_) => channel.refuse(ErrorKind::Invalid, "malformed start").await,
            },
            FrameKind::Read | FrameKind::Write | FrameKind::List | FrameKind::Stat | FrameKind::Delete => {
                files::serve(&guest.files, frame, &mut channel).await;
            }
            FrameKind::CodeOpen | FrameKind::CodeClose | FrameKind::CodeRun => code::serve(frame, &mut channel).await,
            FrameKind::Spawn | FrameKind::Processes | FrameKind::Attach | FrameKind::Forget => {
                guest.processes.serve(frame, &mut channel).await;
            }
            FrameKind::Watch => watching::serve(frame, &mut channel).await,
            // Late frames of a closed channel.
            FrameKind::Cancel | FrameKind::Credit | FrameKind::Stdin | FrameKind::Signal | FrameKind::Data => {}
            _ => channel.refuse(ErrorKind::Invalid, "unknown request").await,
        }
        AfterRequest::GoOn
    }
    .boxed()
}

async fn take_new_life(guest: &ScriptedGuest, frame: &Frame, channel: &FakeChannel) -> AfterRequest {
    if guest.script.manner() == HandshakeBehaviour::Silent {
        return AfterRequest::GoOn;
    }
    match Rebirth::parse(&frame.payload) {
        Ok(rebirth) if guest.script.manner() != HandshakeBehaviour::RefusesRebirth => {
            guest.script.consider(rebirth.clone()).await;
            *locked(&guest.secret) = rebirth.secret;
            if guest.script.loses_answer() {
                return AfterRequest::HangUp;
            }
            channel.say(Reborn { wall_clock_ns: rebirth.wall_clock_ns, generation: Some(GENERATION) }).await;
        }
        _ => channel.refuse(ErrorKind::Failed, "no new life for me").await,
    }
    AfterRequest::GoOn
}

/// Records volumes by their paths. A path in `/files` is a file, so mounting there fails.
async fn take_volumes(guest: &ScriptedGuest, frame: &Frame, channel: &FakeChannel) {
    match VolumeDevices::parse(frame.kind, &frame.payload) {
        Ok(asked) if asked.volumes.iter().any(|volume| volume.path.starts_with("/files/")) => {
            channel.refuse(ErrorKind::WrongType, "/files/x is not a directory").await;
        }
        Ok(asked) => {
            guest.script.note_volumes(asked.volumes);
            channel.send(Frame::new(channel.number, FrameKind::Done, Bytes::new())).await;
        }
        Err(_) => channel.refuse(ErrorKind::Invalid, "malformed volumes").await,
    }
}

fn port() -> PortReport {
    PortReport { port: 8000, loopback_only: false, process: Some("fake".to_owned()) }
}

fn figures() -> GuestUsage {
    GuestUsage {
        cpu_ms: 1,
        memory_total: 1 << 28,
        memory_available: 1 << 27,
        disk_total: 1 << 30,
        disk_free: 1 << 29,
        processes: 1,
        uptime_ms: 1,
    }
}
