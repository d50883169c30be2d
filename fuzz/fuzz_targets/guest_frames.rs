//! Feeds any bytes to the link's decoder and each frame's payload to every parser. Run: `cargo
//! xtask fuzz guest_frames`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pandastack_wire_guest::*;

fuzz_target!(|bytes: &[u8]| {
    // The first byte decides how the stream is cut: frames must not depend on it.
    let Some((step, bytes)) = bytes.split_first() else { return };
    let mut decoder = Decoder::default();
    for piece in bytes.chunks(usize::from(*step) + 1) {
        decoder.buffer().extend_from_slice(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => parse_as_everything(&frame),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
    parse_as_everything(&Frame::new(0, FrameKind::Ping, bytes[..bytes.len().min(FRAME_BYTES_MAX)].to_vec()));
});

fn parse_as_everything(frame: &Frame) {
    macro_rules! each {
        ($($message:ty),* $(,)?) => { $(same_again::<$message>(&frame.payload);)* };
    }
    each!(
        Hello,
        Welcome,
        Rebirth,
        Reborn,
        StartProcess,
        ProcessStarted,
        Signal,
        Resize,
        Credit,
        ProcessExit,
        ReadFile,
        WriteFile,
        EntryMetadata,
        BytesWritten,
        DirEntries,
        PortList,
        GuestUsage,
        Error,
    );
    let _ = PathMessage::parse(frame.kind, &frame.payload);
}

/// What was understood once is understood the same way again.
fn same_again<M: Message + PartialEq + std::fmt::Debug>(payload: &[u8]) {
    if let Ok(message) = M::parse(payload) {
        let again = M::parse(&message.frame(0).payload).expect("our own encoding parses");
        assert_eq!(again, message);
    }
}
