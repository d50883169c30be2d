//! Code sessions of a fake guest. Some ids are refused, and the text of a cell says how it ends.

use bytes::Bytes;
use pandastack_wire_guest::{
    CODE_BODY_BYTES_MAX, CodeClose, CodeEnd, CodeOpen, CodeOpened, CodeRan, CodeRun, CodeSessionReport, ErrorKind,
    FRAME_BYTES_MAX, Frame, FrameKind, Message,
};

use super::channel::FakeChannel;

/// Opens or closes a session. One named `full` or `none` is refused.
pub(super) async fn serve(frame: Frame, channel: &mut FakeChannel) {
    match frame.kind {
        FrameKind::CodeOpen => match CodeOpen::parse(&frame.payload) {
            Ok(ask) if ask.id == "full" => channel.refuse(ErrorKind::Full, "too many").await,
            Ok(ask) if ask.id == "none" => channel.refuse(ErrorKind::Missing, "no python3").await,
            Ok(CodeOpen { id, language }) => {
                channel.say(CodeOpened { session: CodeSessionReport { id, language, created_ms: 1, cells: 0 } }).await;
            }
            Err(_) => channel.refuse(ErrorKind::Invalid, "malformed open").await,
        },
        FrameKind::CodeClose => match CodeClose::parse(&frame.payload) {
            Ok(ask) if ask.id != "none" => {
                channel.send(Frame::new(channel.number, FrameKind::Done, Bytes::new())).await
            }
            _ => channel.refuse(ErrorKind::Missing, "session not found").await,
        },
        _ => run(frame, channel).await,
    }
}

/// Runs a cell: `echo …`, `late`, `flood` (more than a cell may print), or one that never ends by
/// itself.
async fn run(frame: Frame, channel: &mut FakeChannel) {
    if CodeRun::parse(&frame.payload).is_ok_and(|ask| ask.id == "none") {
        return channel.refuse(ErrorKind::Missing, "session not found").await;
    }
    let mut code = Vec::new();
    while let Some(piece) = channel.next().await {
        code.extend_from_slice(&piece.payload);
        if piece.flags.is_end() {
            break;
        }
    }
    let text = String::from_utf8_lossy(&code).into_owned();
    let end = match text.split_once(' ') {
        Some(("echo", rest)) => {
            // One frame is enough.
            let said = Bytes::from(rest.chars().take(1000).collect::<String>());
            channel.data(Frame::new(channel.number, FrameKind::Stdout, said)).await;
            CodeEnd::Answered
        }
        _ if text == "late" => CodeEnd::Late,
        _ if text == "flood" => {
            let piece = Bytes::from(vec![b'x'; FRAME_BYTES_MAX]);
            for _ in 0..=CODE_BODY_BYTES_MAX / FRAME_BYTES_MAX {
                if channel.data(Frame::new(channel.number, FrameKind::Data, piece.clone())).await.is_some() {
                    return channel.refuse(ErrorKind::Cancelled, "cancelled").await;
                }
            }
            CodeEnd::Answered
        }
        _ => {
            while channel.next().await.is_some_and(|frame| frame.kind != FrameKind::Cancel) {}
            channel.script.note_sent(code.len());
            return channel.refuse(ErrorKind::Cancelled, "cancelled").await;
        }
    };
    let (anew, lost, stdout_cut, stderr_cut) = (false, false, false, false);
    channel.say(CodeRan { end, exit: 0, duration_ms: 5, anew, lost, stdout_cut, stderr_cut }).await;
}
