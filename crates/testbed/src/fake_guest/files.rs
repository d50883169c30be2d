//! Files of a fake guest: whole contents by absolute path. Folders are common prefixes of paths.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use bytes::Bytes;
use pandastack_wire_guest::{
    BytesWritten, DirEntries, DirEntry, DirEntryKind, EntryMetadata, ErrorKind, FRAME_BYTES_MAX, Frame, FrameKind,
    Message, PathMessage, ReadFile, WriteFile,
};

use super::{channel::FakeChannel, locked};

type Files = Mutex<BTreeMap<String, Vec<u8>>>;

/// Serves one request about files.
pub(super) async fn serve(files: &Files, frame: Frame, channel: &mut FakeChannel) {
    let path = match frame.kind {
        FrameKind::Read => ReadFile::parse(&frame.payload).map(|read| read.path),
        FrameKind::Write => WriteFile::parse(&frame.payload).map(|write| write.path),
        kind => PathMessage::parse(kind, &frame.payload).map(|path| path.path),
    };
    let path = match path {
        Ok(path) if path.starts_with('/') => path,
        Ok(_) | Err(_) => return channel.refuse(ErrorKind::Invalid, "the path is not absolute").await,
    };
    match frame.kind {
        FrameKind::Read => read(files, &path, channel).await,
        FrameKind::Write => write(files, path, channel).await,
        FrameKind::List => list(files, &path, channel).await,
        FrameKind::Stat => match entry(files, &path) {
            Some(entry) => channel.send(EntryMetadata { entry }.frame(channel.number).end()).await,
            None => missing(channel).await,
        },
        _ => {
            let below = format!("{}/", path.trim_end_matches('/'));
            locked(files).retain(|name, _| *name != path && !name.starts_with(&below));
            channel.send(Frame::new(channel.number, FrameKind::Done, Bytes::new())).await;
        }
    }
}

async fn read(files: &Files, path: &str, channel: &mut FakeChannel) {
    let contents = locked(files).get(path).cloned();
    let (Some(contents), Some(entry)) = (contents, entry(files, path)) else { return missing(channel).await };
    channel.say(EntryMetadata { entry }).await;
    for piece in contents.chunks(FRAME_BYTES_MAX) {
        let frame = Frame::new(channel.number, FrameKind::Data, piece.to_vec());
        if channel.data(frame).await.is_some() {
            return channel.refuse(ErrorKind::Cancelled, "cancelled").await;
        }
    }
    channel.send(Frame::new(channel.number, FrameKind::Data, Bytes::new()).end()).await;
}

async fn write(files: &Files, path: String, channel: &mut FakeChannel) {
    let mut contents = Vec::new();
    while let Some(frame) = channel.next().await {
        if frame.kind != FrameKind::Data {
            return channel.refuse(ErrorKind::Cancelled, "cancelled").await;
        }
        contents.extend_from_slice(&frame.payload);
        channel.consumed(&frame.payload).await;
        if frame.flags.is_end() {
            let bytes = contents.len() as u64;
            locked(files).insert(path, contents);
            return channel.say(BytesWritten { bytes }).await;
        }
    }
}

async fn list(files: &Files, path: &str, channel: &FakeChannel) {
    let below = format!("{}/", path.trim_end_matches('/'));
    let names: BTreeSet<String> = {
        let files = locked(files);
        let inside = files.keys().filter_map(|name| name.strip_prefix(&below)?.split('/').next());
        inside.map(str::to_owned).collect()
    };
    let entries = names.iter().filter_map(|name| entry(files, &format!("{below}{name}"))).collect();
    channel.send(DirEntries { entries }.frame(channel.number).end()).await;
}

fn entry(files: &Files, path: &str) -> Option<DirEntry> {
    let files = locked(files);
    let below = format!("{}/", path.trim_end_matches('/'));
    let (kind, size, mode) = match files.get(path) {
        Some(contents) => (DirEntryKind::File, contents.len() as u64, 0o644),
        None if files.keys().any(|name| name.starts_with(&below)) => (DirEntryKind::Directory, 0, 0o755),
        None => return None,
    };
    let name = path.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("/").to_owned();
    Some(DirEntry { name, kind, size, mode, modified: 0, target: None })
}

async fn missing(channel: &FakeChannel) {
    channel.refuse(ErrorKind::Missing, "no such file").await;
}
