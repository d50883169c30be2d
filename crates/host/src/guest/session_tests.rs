//! Tests with a guest that breaks the rules of the link, on a link in memory. Time is virtual: a
//! timeout passes as soon as all tasks are blocked, so "the guest cannot send more" needs no
//! waiting.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use pandastack_kit::Scope;
use pandastack_wire_guest::{Decoder, FRAME_BYTES_MAX, FRAME_COST_MIN, Frame, FrameKind, GENERATION, WINDOW_BYTES};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    time::timeout,
};

use super::{GuestChannel, GuestSession, LinkError};
use crate::guest::limits::{CHANNEL_BYTES_MAX, CHANNELS_MAX, LINK_BYTES_MAX, OUT_BYTES_MAX, UNCREDITED_BYTES_MAX};

/// Bytes that the link itself buffers.
const WIRE_BYTES: usize = 64 * 1024;

/// Longer than every timeout of the link.
const LONG: Duration = Duration::from_secs(3600);

/// Upper bound of a flood, so that it ends if nothing stops it.
const FLOOD_BYTES: usize = 64 << 20;

fn link() -> (GuestSession, DuplexStream, Scope) {
    let (ours, guest) = tokio::io::duplex(WIRE_BYTES);
    let scope = Scope::new();
    (GuestSession::start(Box::new(ours), Decoder::default(), GENERATION, &scope), guest, scope)
}

fn encoded(frame: &Frame) -> BytesMut {
    let mut bytes = BytesMut::new();
    frame.encode(&mut bytes);
    bytes
}

fn data(number: u32, bytes: usize) -> BytesMut {
    encoded(&Frame::new(number, FrameKind::Data, vec![7; bytes]))
}

/// Sends frames for each number in turn until the link ends, accepts no more, or the flood is over.
/// Returns the bytes that were accepted.
async fn flood(guest: &mut DuplexStream, numbers: &[u32], frame_bytes: usize, bytes_max: usize) -> usize {
    let mut taken = 0;
    for number in numbers.iter().cycle() {
        let frame = data(*number, frame_bytes);
        if taken >= bytes_max || !matches!(timeout(LONG, guest.write_all(&frame)).await, Ok(Ok(()))) {
            break;
        }
        taken += frame.len();
    }
    taken
}

fn channels(session: &GuestSession, count: usize) -> Vec<GuestChannel> {
    (0..count).map(|_| session.channel().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_floods_one_channel_loses_its_link() {
    for frame_bytes in [FRAME_BYTES_MAX, 1] {
        let (session, mut guest, _scope) = link();
        let mut channel = session.channel().unwrap();
        let numbers = [channel.number()];
        let flooded = flood(&mut guest, &numbers, frame_bytes, FLOOD_BYTES);
        let closed = timeout(LONG, session.broken());
        let (taken, closed) = tokio::join!(flooded, closed);
        closed.expect("the link is closed");
        assert!(taken <= CHANNEL_BYTES_MAX + 2 * FRAME_BYTES_MAX + WIRE_BYTES, "{taken} bytes of a flood were taken");
        // The queued frames are still readable. Then the channel ends.
        while channel.next().await.is_ok() {}
        assert!(matches!(session.channel(), Err(LinkError::Closed)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_floods_many_channels_below_their_windows_fills_no_more_than_the_link() {
    let (session, mut guest, _scope) = link();
    let mut channels = channels(&session, CHANNELS_MAX);
    let numbers: Vec<u32> = channels.iter().map(GuestChannel::number).collect();
    let taken = flood(&mut guest, &numbers, FRAME_BYTES_MAX, CHANNELS_MAX * WINDOW_BYTES).await;
    assert!(taken <= LINK_BYTES_MAX + 2 * FRAME_BYTES_MAX + WIRE_BYTES, "{taken} bytes were taken");
    // The guest obeyed its credit, so the link continues as soon as a frame is read.
    let first = channels[0].next().await.unwrap();
    assert_eq!(first.payload.len(), FRAME_BYTES_MAX);
    drop(channels);
    let channel = session.channel().unwrap();
    assert!(timeout(LONG, guest.write_all(&data(channel.number(), 1))).await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_full_window_and_the_frames_outside_of_it_pass() {
    for frame_bytes in [FRAME_BYTES_MAX, FRAME_COST_MIN, 1] {
        let (session, mut guest, _scope) = link();
        let mut channel = session.channel().unwrap();
        let number = channel.number();
        let (frames, short) = (WINDOW_BYTES / frame_bytes.max(FRAME_COST_MIN), 16);
        for _ in 0..frames {
            guest.write_all(&data(number, frame_bytes)).await.unwrap();
        }
        for _ in 0..short {
            guest.write_all(&encoded(&Frame::new(number, FrameKind::Credit, vec![0; 16]))).await.unwrap();
        }
        guest.write_all(&encoded(&Frame::new(number, FrameKind::Process, vec![0; FRAME_BYTES_MAX]))).await.unwrap();
        // Another channel's answer is not delayed by a full queue.
        let (pong, ()) = tokio::join!(session.ping(), answer_ping(&mut guest));
        pong.unwrap();
        for _ in 0..frames {
            assert_eq!(channel.next().await.unwrap().payload.len(), frame_bytes);
        }
        for _ in 0..short {
            assert_eq!(channel.next().await.unwrap().kind, FrameKind::Credit);
        }
        assert_eq!(channel.next().await.unwrap().payload.len(), FRAME_BYTES_MAX);
    }
}

async fn answer_ping(guest: &mut DuplexStream) {
    let mut decoder = Decoder::default();
    loop {
        guest.read_buf(decoder.buffer()).await.unwrap();
        if let Some(frame) = decoder.next_frame().unwrap() {
            assert_eq!(frame.kind, FrameKind::Ping);
            guest.write_all(&encoded(&Frame::new(frame.channel, FrameKind::Pong, Bytes::new()))).await.unwrap();
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_answer_without_credit_waits_for_its_reader() {
    let (session, mut guest, _scope) = link();
    let mut channel = session.channel().unwrap().without_credit();
    let number = channel.number();
    let frames = 4 * CHANNEL_BYTES_MAX / FRAME_BYTES_MAX;
    let taken = flood(&mut guest, &[number], FRAME_BYTES_MAX, frames * FRAME_BYTES_MAX).await;
    assert!(taken <= CHANNEL_BYTES_MAX + 2 * FRAME_BYTES_MAX + WIRE_BYTES, "{taken} bytes were taken");
    // The frame that was interrupted is lost to this guest. The link is not closed.
    assert!(channel.next().await.is_ok());
    assert!(session.channel().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_was_left_counts_no_more() {
    let (session, mut guest, _scope) = link();
    let channel = session.channel().unwrap();
    let number = channel.number();
    flood(&mut guest, &[number], FRAME_BYTES_MAX, WINDOW_BYTES).await;
    channel.leave().await;
    let taken = flood(&mut guest, &[number], FRAME_BYTES_MAX, FLOOD_BYTES).await;
    assert!(taken >= FLOOD_BYTES, "{taken} bytes were taken");
    assert!(session.channel().is_ok());
}

/// One byte of a frame must not keep alive the large buffer that it was read into.
#[tokio::test(start_paused = true)]
async fn a_short_frame_does_not_hold_the_buffer_it_came_in() {
    let (session, mut guest, _scope) = link();
    let mut channel = session.channel().unwrap();
    // The first frame belongs to no channel. It makes the buffer large.
    guest.write_all(&data(0, FRAME_BYTES_MAX)).await.unwrap();
    guest.write_all(&data(channel.number(), 1)).await.unwrap();
    let frame = channel.next().await.unwrap();
    let unshared = frame.payload.try_into_mut().expect("nobody else holds it");
    assert!(unshared.capacity() <= FRAME_COST_MIN, "{} bytes are held for one", unshared.capacity());
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_guest_that_does_not_read_is_bounded() {
    let (session, _guest, _scope) = link();
    let channel = session.channel().unwrap();
    let mut sent = 0;
    while sent < FLOOD_BYTES {
        let frame = Frame::new(channel.number(), FrameKind::Stdin, vec![7; FRAME_BYTES_MAX]);
        match channel.send(frame).await {
            Ok(()) => sent += FRAME_BYTES_MAX,
            Err(error) => {
                assert!(matches!(error, LinkError::Deadline), "{error}");
                break;
            }
        }
    }
    // Beside the queue, one batch may be in flight.
    assert!(sent <= OUT_BYTES_MAX + 4 * FRAME_BYTES_MAX, "{sent} bytes wait");
    const { assert!(UNCREDITED_BYTES_MAX < WINDOW_BYTES) };
}
