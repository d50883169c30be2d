//! Files in the guest. Streams them in both directions and never holds a whole file.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{ByteStream, FileBody, FileEntry, FileKind, WriteParams};
use pandastack_wire_guest::{
    BytesWritten, Credit, DirEntries, DirEntry, DirEntryKind, EntryMetadata, FRAME_BYTES_MAX, Frame, FrameKind,
    Message, PathMessage, ReadFile, WINDOW_BYTES, WriteFile,
};

use super::{
    channel::GuestChannel,
    fault::{parse, reply},
    limits::{ENTRIES_MAX, LISTING_BYTES_MAX, REQUEST_DEADLINE},
    session::{GuestSession, LinkError},
};

/// Opens a file. Its contents are streamed as the body is read.
pub async fn read_file(session: &GuestSession, path: &str) -> Result<FileBody, Fault> {
    let mut channel = session.channel()?;
    channel.send(ReadFile { path: path.to_owned() }.frame(channel.number())).await?;
    let first = next(&mut channel).await?;
    if first.kind == FrameKind::Error {
        channel.finish();
    }
    let entry = checked(parse::<EntryMetadata>(first)?.entry).ok_or_else(unexpected_frame)?;
    Ok(FileBody { entry, body: Box::pin(stream::unfold(Some(channel), next_piece)) })
}

/// Returns the next piece of a body that a guest sends.
pub(super) async fn next_piece(channel: Option<GuestChannel>) -> Option<(Result<Bytes, Fault>, Option<GuestChannel>)> {
    let mut channel = channel?;
    let frame = match next(&mut channel).await.and_then(|frame| reply(frame, FrameKind::Data)) {
        Ok(frame) => frame,
        Err(fault) => return Some((Err(fault), None)),
    };
    if frame.flags.is_end() {
        channel.finish();
        return (!frame.payload.is_empty()).then_some((Ok(frame.payload), None));
    }
    match channel.consumed(&frame.payload).await {
        Ok(()) => Some((Ok(frame.payload), Some(channel))),
        Err(error) => Some((Err(error.into()), None)),
    }
}

/// Writes a body to a file. The file appears complete or not at all.
pub async fn write_file(session: &GuestSession, ask: WriteParams, mut body: ByteStream) -> Result<u64, Fault> {
    let mut channel = session.channel()?;
    let number = channel.number();
    channel.send(WriteFile { path: ask.path, mode: ask.mode }.frame(number)).await?;
    Ok(parse::<BytesWritten>(upload(&mut channel, &mut body).await?)?.bytes)
}

/// Sends a body as fast as the guest accepts it, and returns the guest's last frame. A body that
/// breaks off is a fault, and the dropped channel then makes the guest discard its part.
pub(super) async fn upload(channel: &mut GuestChannel, body: &mut ByteStream) -> Result<Frame, Fault> {
    let number = channel.number();
    let mut window = WINDOW_BYTES;
    loop {
        let mut piece = tokio::select! {
            piece = body.next() => match piece {
                Some(piece) => piece?,
                None => break,
            },
            // An error from the guest is handled at once, even while the sender's next piece is
            // awaited.
            frame = channel.next() => {
                let frame = frame?;
                if frame.kind != FrameKind::Credit {
                    channel.finish();
                    return Ok(frame);
                }
                window = window.saturating_add(parse::<Credit>(frame)?.bytes as usize);
                continue;
            }
        };
        while !piece.is_empty() {
            let part = piece.split_to(piece.len().min(FRAME_BYTES_MAX));
            while window < part.len() {
                let frame = next(channel).await?;
                if frame.kind != FrameKind::Credit {
                    channel.finish();
                    return Ok(frame);
                }
                window = window.saturating_add(parse::<Credit>(frame)?.bytes as usize);
            }
            window -= part.len();
            channel.send(Frame::new(number, FrameKind::Data, part)).await?;
        }
    }
    channel.send(Frame::new(number, FrameKind::Data, Bytes::new()).end()).await?;
    loop {
        let frame = next(channel).await?;
        if frame.kind != FrameKind::Credit {
            channel.finish();
            return Ok(frame);
        }
    }
}

/// Lists a directory, sorted by name.
pub async fn list_dir(session: &GuestSession, path: &str) -> Result<Vec<FileEntry>, Fault> {
    let mut channel = session.channel()?.without_credit();
    channel.send(PathMessage { path: path.to_owned() }.frame(channel.number(), FrameKind::List)).await?;
    let (mut entries, mut bytes) = (Vec::new(), 0);
    loop {
        let frame = next(&mut channel).await?;
        let last = frame.flags.is_end() || frame.kind == FrameKind::Error;
        if last {
            channel.finish();
        }
        let part = parse::<DirEntries>(frame)?.entries.into_iter().filter_map(checked);
        entries.extend(part.inspect(|entry| bytes += memory_of(entry)));
        if entries.len() > ENTRIES_MAX || bytes > LISTING_BYTES_MAX {
            let text = format!(
                "the directory has more than {ENTRIES_MAX} entries, or more than {LISTING_BYTES_MAX} bytes of names; \
                 list a smaller directory"
            );
            return Err(Fault::new(FaultKind::TooLarge, "directory.too_large", text));
        }
        if last {
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            return Ok(entries);
        }
    }
}

/// Describes one path.
pub async fn stat(session: &GuestSession, path: &str) -> Result<FileEntry, Fault> {
    let meta: EntryMetadata = parse(ask(session, path, FrameKind::Stat).await?)?;
    checked(meta.entry).ok_or_else(unexpected_frame)
}

/// Deletes a path and everything below it.
pub async fn delete_path(session: &GuestSession, path: &str) -> Result<(), Fault> {
    reply(ask(session, path, FrameKind::Delete).await?, FrameKind::Done).map(drop)
}

async fn ask(session: &GuestSession, path: &str, kind: FrameKind) -> Result<Frame, Fault> {
    let mut channel = session.channel()?;
    channel.send(PathMessage { path: path.to_owned() }.frame(channel.number(), kind)).await?;
    let frame = next(&mut channel).await?;
    channel.finish();
    Ok(frame)
}

/// Waits for the next frame, with a timeout.
pub(super) async fn next(channel: &mut GuestChannel) -> Result<Frame, Fault> {
    match tokio::time::timeout(REQUEST_DEADLINE, channel.next()).await {
        Ok(frame) => Ok(frame?),
        Err(_) => Err(LinkError::Deadline.into()),
    }
}

pub(super) fn unexpected_frame() -> Fault {
    Fault::new(FaultKind::Unavailable, "guest.confused", "the sandbox's agent sent an invalid response")
}

/// Skips names from an untrusted guest that are not plain names.
fn checked(entry: DirEntry) -> Option<FileEntry> {
    (entry.name == "/" || is_plain(&entry.name)).then(|| to_file_entry(entry))
}

/// Returns whether a name from a guest is a plain name and not a path.
pub(super) fn is_plain(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

/// Returns the bytes that an entry takes in memory.
pub(super) fn memory_of(entry: &FileEntry) -> usize {
    size_of::<FileEntry>() + entry.name.len() + entry.target.as_ref().map_or(0, String::len)
}

pub(super) fn to_file_entry(entry: DirEntry) -> FileEntry {
    let DirEntry { name, kind, size, mode, modified, target } = entry;
    let kind = match kind {
        DirEntryKind::File => FileKind::File,
        DirEntryKind::Directory => FileKind::Directory,
        DirEntryKind::Symlink => FileKind::Symlink,
        DirEntryKind::Other => FileKind::Other,
    };
    FileEntry { name, kind, size, mode, modified, target }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> DirEntry {
        DirEntry { name: name.to_owned(), kind: DirEntryKind::File, size: 1, mode: 0o644, modified: 0, target: None }
    }

    #[test]
    fn names_that_walk_away_are_left_out() {
        assert!(checked(entry("notes.txt")).is_some());
        for bad in ["", ".", "..", "a/b", "a\0b", "/etc"] {
            assert!(checked(entry(bad)).is_none(), "{bad:?}");
        }
    }
}
