//! The programs of a fake guest: a few correct ones, and a few that break the protocol.

use std::time::Duration;

use bytes::Bytes;
use pandastack_wire_guest::{
    CommandLine, ErrorKind, FRAME_BYTES_MAX, Frame, FrameKind, HEADER_BYTES, Message, ProcessExit, ProcessStarted,
    Signal, StartProcess,
};

use super::{
    channel::{FakeChannel, LinkOutput},
    connection::AfterRequest,
};

/// Output of `yes` per write.
const YES_BYTES: usize = 16 * 1024;

/// Runs a program to its end or to its timeout.
pub(super) async fn run(start: StartProcess, mut channel: FakeChannel) -> AfterRequest {
    let words: Vec<String> = match start.program {
        CommandLine::Shell(text) => text.split_whitespace().map(str::to_owned).collect(),
        CommandLine::Argv(words) => words,
    };
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["printenv", name] = words[..] {
        let value = start.env.iter().find_map(|set| (set.name == name).then_some(set.value.as_str()));
        words = vec!["echo", value.unwrap_or_default()];
    }
    if !matches!(
        words[..],
        ["true" | "false" | "cat" | "yes" | "overrun" | "nonsense" | "hang-up"] | ["sleep", _] | ["echo", ..]
    ) {
        channel.refuse(ErrorKind::Missing, "no such program").await;
        return AfterRequest::GoOn;
    }
    channel.say(ProcessStarted { pid: 2 }).await;
    let clock = channel.script.clock.clone();
    let deadline = async {
        match start.deadline_ms {
            Some(deadline_ms) => clock.sleep(Duration::from_millis(deadline_ms)).await,
            None => std::future::pending().await,
        }
    };
    let (end, verdict) = tokio::select! {
        (end, verdict) = program(&words, &mut channel) => (end, verdict),
        () = deadline => {
            let late = ProcessExit { code: 143, timed_out: true, signal: Some(15) };
            (ProgramEnd::Exit(late), AfterRequest::GoOn)
        }
    };
    match end {
        ProgramEnd::Exit(exit) => channel.say(exit).await,
        ProgramEnd::Cancelled => channel.refuse(ErrorKind::Cancelled, "cancelled").await,
    }
    verdict
}

enum ProgramEnd {
    Exit(ProcessExit),
    Cancelled,
}

fn exit(code: i32) -> ProgramEnd {
    ProgramEnd::Exit(ProcessExit { code, timed_out: false, signal: None })
}

async fn program(words: &[&str], channel: &mut FakeChannel) -> (ProgramEnd, AfterRequest) {
    let end = match words {
        ["false"] => exit(1),
        ["echo", text @ ..] => {
            let line = Bytes::from(format!("{}\n", text.join(" ")));
            let stopped = channel.data(Frame::new(channel.number, FrameKind::Stdout, line)).await;
            stopped.map_or_else(|| exit(0), ended_by)
        }
        ["sleep", seconds] => sleep(seconds.parse().unwrap_or(0), channel).await,
        ["cat"] => cat(channel).await,
        ["yes"] => yes(channel).await,
        ["overrun"] => overrun(channel).await,
        ["nonsense"] => {
            let mut header = [0; HEADER_BYTES];
            header[8] = 99;
            let _ = channel.out.send(LinkOutput::Raw(header.to_vec())).await;
            std::future::pending().await
        }
        ["hang-up"] => return (ProgramEnd::Cancelled, AfterRequest::HangUp),
        _ => exit(0),
    };
    (end, AfterRequest::GoOn)
}

async fn sleep(seconds: u64, channel: &mut FakeChannel) -> ProgramEnd {
    let clock = channel.script.clock.clone();
    tokio::select! {
        () = clock.sleep(Duration::from_secs(seconds)) => exit(0),
        frame = channel.next() => frame.map_or(ProgramEnd::Cancelled, ended_by),
    }
}

async fn cat(channel: &mut FakeChannel) -> ProgramEnd {
    while let Some(frame) = channel.next().await {
        if frame.kind != FrameKind::Stdin {
            return ended_by(frame);
        }
        let (payload, last) = (frame.payload.clone(), frame.flags.is_end());
        if !payload.is_empty()
            && let Some(stop) = channel.data(Frame::new(channel.number, FrameKind::Stdout, payload.clone())).await
        {
            return ended_by(stop);
        }
        channel.consumed(&payload).await;
        if last {
            return exit(0);
        }
    }
    ProgramEnd::Cancelled
}

async fn yes(channel: &mut FakeChannel) -> ProgramEnd {
    let lines = Bytes::from("y\n".repeat(YES_BYTES / 2));
    loop {
        if let Some(stop) = channel.data(Frame::new(channel.number, FrameKind::Stdout, lines.clone())).await {
            return ended_by(stop);
        }
        if channel.out.is_closed() {
            return ProgramEnd::Cancelled;
        }
    }
}

/// Sends without credit until the connection is gone.
async fn overrun(channel: &mut FakeChannel) -> ProgramEnd {
    let full = Bytes::from(vec![0; FRAME_BYTES_MAX]);
    let tiny = Bytes::from_static(b"x");
    for payload in std::iter::once(full).chain(std::iter::repeat(tiny)) {
        let frame = Frame::new(channel.number, FrameKind::Stdout, payload);
        if channel.out.send(LinkOutput::Frame(frame)).await.is_err() {
            break;
        }
    }
    ProgramEnd::Cancelled
}

/// How a program ends when the host sends a frame other than data.
fn ended_by(frame: Frame) -> ProgramEnd {
    match frame.kind {
        FrameKind::Signal => exit(128 + Signal::parse(&frame.payload).map_or(9, |signal| signal.number)),
        _ => ProgramEnd::Cancelled,
    }
}
