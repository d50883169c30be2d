//! Sends a file's contents, as fast as the host reads them.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use bytes::Bytes;
use pandastack_wire_guest::{EntryMetadata, Frame, FrameKind, Message, ReadFile};

use super::{FileError, absolute, entry, failed};
use crate::{
    limits,
    session::{AgentChannel, GuestFault},
};

/// Sends `EntryMetadata`, then the contents; returns the last frame.
pub(crate) async fn read(channel: &AgentChannel, ReadFile { path }: ReadFile) -> Result<Frame, GuestFault> {
    let path = absolute(&path)?;
    let (file, meta) = open(path)?;
    channel.send(meta.frame(channel.id)).await;
    loop {
        let room = channel.room(limits::FILE_CHUNK_BYTES).await;
        let bytes = chunk(&file, room.bytes).map_err(failed("read", path))?;
        if bytes.is_empty() {
            return Ok(Frame::new(channel.id, FrameKind::Data, bytes).end());
        }
        room.send(Frame::new(channel.id, FrameKind::Data, bytes));
        // The disk read may have blocked the other tasks.
        tokio::task::yield_now().await;
    }
}

fn open(path: &Path) -> Result<(File, EntryMetadata), FileError> {
    // Non-blocking, because opening a FIFO would block the whole agent until a writer comes.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let file = file.map_err(failed("open", path))?;
    let meta = file.metadata().map_err(failed("stat", path))?;
    if !meta.is_file() {
        return Err(FileError::NotAFile { path: path.display().to_string() });
    }
    let entry = entry::describe(path, &meta);
    Ok((file, EntryMetadata { entry }))
}

fn chunk(file: &File, bytes: usize) -> io::Result<Bytes> {
    let mut chunk = Vec::with_capacity(bytes);
    file.take(bytes as u64).read_to_end(&mut chunk)?;
    Ok(chunk.into())
}
