//! Watches of a fake guest: below `/busy` something always changes, elsewhere nothing does.

use bytes::Bytes;
use pandastack_wire_guest::{ErrorKind, Frame, FrameKind, Message, PathChange, PathChangeKind, PathChanges, WatchPath};

use super::channel::FakeChannel;

/// Sends changes until the watch is cancelled.
pub(super) async fn serve(frame: Frame, channel: &mut FakeChannel) {
    let Ok(WatchPath { path, .. }) = WatchPath::parse(&frame.payload) else {
        return channel.refuse(ErrorKind::Invalid, "malformed watch").await;
    };
    channel.send(Frame::new(channel.number, FrameKind::Watching, Bytes::new())).await;
    if path.starts_with("/busy") {
        let change = |name: &str| PathChange {
            kind: PathChangeKind::Written,
            path: format!("{path}/{name}"),
            folder: false,
            cookie: None,
        };
        let changes = PathChanges { changes: vec![change("one"), change("two")] }.frame(channel.number);
        while channel.data(changes.clone()).await.is_none() && !channel.out.is_closed() {}
    } else {
        while channel.next().await.is_some_and(|frame| frame.kind != FrameKind::Cancel) {}
    }
    channel.refuse(ErrorKind::Cancelled, "cancelled").await;
}
