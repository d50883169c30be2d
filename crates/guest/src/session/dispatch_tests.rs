//! Tests of `dispatch`: frames in, frames out, without a socket.

use pandastack_wire_guest::{Error, FRAME_BYTES_MAX, WINDOW_BYTES};
use tokio::task::LocalSet;

use super::*;
use crate::{
    rebirth::RecordingSystem,
    session::lanes::{self, LaneReceiver},
};

/// Runs a test's body with a dispatcher and the frames that it sends, on one thread like the agent.
fn with_dispatcher(body: impl AsyncFnOnce(&Rc<Agent>, Dispatcher, LaneReceiver)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let agent = Agent::new(b"secret".to_vec(), 0, Box::new(RecordingSystem::default())).expect("an agent");
    runtime.block_on(LocalSet::new().run_until(async {
        let (lanes, outlet) = lanes::open();
        body(&agent, Dispatcher::new(agent.clone(), lanes), outlet).await;
    }));
}

fn empty(channel: u32, kind: FrameKind) -> Frame {
    Frame::new(channel, kind, bytes::Bytes::new())
}

/// A write request, which waits for its input.
fn write(channel: u32) -> Frame {
    WriteFile { path: "/nowhere/at/all".to_owned(), mode: None }.frame(channel)
}

fn error(frame: &Frame) -> ErrorKind {
    parse::<Error>(frame).unwrap_or_else(|_| panic!("{frame:?} is no error")).kind
}

#[test]
fn a_request_is_answered_on_its_channel() {
    with_dispatcher(async |_, mut dispatcher, mut outlet| {
        dispatcher.accept(PathMessage { path: "/".to_owned() }.frame(7, FrameKind::Stat)).await.unwrap();
        let answer = outlet.next().await.unwrap();
        assert_eq!((answer.channel, answer.kind), (7, FrameKind::Meta));
        assert!(dispatcher.channels.borrow().is_empty(), "the number is free again");
        dispatcher.accept(empty(9, FrameKind::Ping)).await.unwrap();
        assert_eq!(outlet.next().await, Some(empty(9, FrameKind::Pong)));
    });
}

#[test]
fn every_request_that_makes_no_sense_ends_with_one_frame() {
    let requests = [
        FrameKind::Start,
        FrameKind::Read,
        FrameKind::Write,
        FrameKind::List,
        FrameKind::Stat,
        FrameKind::Delete,
        FrameKind::CodeOpen,
        FrameKind::CodeClose,
        FrameKind::CodeRun,
        FrameKind::Mount,
        FrameKind::Grow,
        FrameKind::Spawn,
        FrameKind::Processes,
        FrameKind::Attach,
        FrameKind::WriteStdin,
        FrameKind::SignalProcess,
        FrameKind::Forget,
        FrameKind::MakeDir,
        FrameKind::Move,
        FrameKind::Chmod,
        FrameKind::Walk,
        FrameKind::Watch,
        FrameKind::Pack,
        FrameKind::Unpack,
    ];
    with_dispatcher(async |_, mut dispatcher, mut outlet| {
        for (channel, kind) in (1..).zip(requests) {
            dispatcher.accept(empty(channel, kind)).await.unwrap_or_else(|_| panic!("{kind:?} is a request"));
            let answer = outlet.next().await.unwrap();
            assert_eq!((answer.channel, error(&answer)), (channel, ErrorKind::Invalid), "{kind:?}");
        }
        assert!(dispatcher.channels.borrow().is_empty());
        assert_eq!(dispatcher.lanes.held().bytes(), 0);
    });
}

#[test]
fn what_only_a_guest_says_breaks_the_protocol() {
    with_dispatcher(async |_, mut dispatcher, _outlet| {
        for kind in [
            FrameKind::Hello,
            FrameKind::Welcome,
            FrameKind::Pong,
            FrameKind::Reborn,
            FrameKind::Exit,
            FrameKind::Error,
            FrameKind::Stdout,
        ] {
            assert!(dispatcher.accept(empty(1, kind)).await.is_err(), "{kind:?}");
        }
    });
}

#[test]
fn channels_have_one_owner_and_a_number() {
    with_dispatcher(async |agent, mut dispatcher, mut outlet| {
        // Writes wait while file systems are frozen.
        agent.frozen.set(true);
        let count = u32::try_from(limits::CHANNELS_MAX).unwrap();
        for channel in 0..count {
            dispatcher.accept(write(channel)).await.unwrap();
        }
        dispatcher.accept(write(count)).await.unwrap();
        let answer = outlet.next().await.unwrap();
        assert_eq!((answer.channel, error(&answer)), (count, ErrorKind::Full));
        assert!(dispatcher.accept(write(0)).await.is_err(), "a channel in use is not opened again");
        dispatcher.accept(empty(5, FrameKind::Cancel)).await.unwrap();
        let answer = outlet.next().await.unwrap();
        assert_eq!((answer.channel, error(&answer)), (5, ErrorKind::Cancelled));
        // A frame for a channel that has just ended is accepted: the host could not know.
        dispatcher.accept(empty(5, FrameKind::Cancel)).await.unwrap();
        dispatcher.abort().await;
    });
}

#[test]
fn all_channels_together_hold_a_bounded_number_of_bytes() {
    with_dispatcher(async |agent, mut dispatcher, mut outlet| {
        agent.frozen.set(true);
        let held = dispatcher.lanes.held().clone();
        let piece = bytes::Bytes::from(vec![0; FRAME_BYTES_MAX]);
        let channels = u32::try_from(limits::HELD_BYTES_MAX / WINDOW_BYTES + 1).unwrap();
        for channel in 0..channels {
            dispatcher.accept(write(channel)).await.unwrap();
            for _ in 0..WINDOW_BYTES / FRAME_BYTES_MAX {
                dispatcher.accept(Frame::new(channel, FrameKind::Data, piece.clone())).await.unwrap();
            }
            assert!(held.bytes() <= limits::HELD_BYTES_MAX, "{} bytes", held.bytes());
        }
        let answer = outlet.next().await.unwrap();
        assert_eq!(error(&answer), ErrorKind::Full, "no window was overrun");
        dispatcher.abort().await;
        assert_eq!(held.bytes(), 0, "what ends gives its bytes back");
    });
}

#[test]
fn a_window_bounds_one_channel() {
    with_dispatcher(async |agent, mut dispatcher, mut outlet| {
        agent.frozen.set(true);
        dispatcher.accept(write(1)).await.unwrap();
        let piece = bytes::Bytes::from(vec![0; FRAME_BYTES_MAX]);
        for _ in 0..=WINDOW_BYTES / FRAME_BYTES_MAX {
            dispatcher.accept(Frame::new(1, FrameKind::Data, piece.clone())).await.unwrap();
        }
        assert_eq!(error(&outlet.next().await.unwrap()), ErrorKind::Invalid);
        dispatcher.abort().await;
    });
}
