//! Whole folders of a guest. Sends the requests, checks the names in listings, and streams archives
//! in both directions.

use futures_util::stream;
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{
    ByteStream, ExistingTarget, FileChange, FileChangeKind, FileChangeStream, PathScope, UnpackSummary, WalkParams,
    WalkResult,
};
use pandastack_wire_guest::{
    self as wire, CreateDir, EntryMetadata, Error, ErrorKind, Frame, FrameKind, Message, PathChanges, PathMessage,
    RenamePath, SetMode, TREES_SINCE, WalkDir, WalkEntries, WatchPath,
};

use super::{
    channel::GuestChannel,
    fault::{guest_fault, parse, reply},
    files::{is_plain, memory_of, next, next_piece, to_file_entry, upload},
    limits::{LISTING_BYTES_MAX, TREE_DEADLINE},
    session::{GuestSession, LinkError},
};

/// Makes a folder.
pub async fn make_dir(session: &GuestSession, path: &str, above: PathScope) -> Result<(), Fault> {
    let (path, parents) = (path.to_owned(), above == PathScope::All);
    done(session, |number| CreateDir { path, parents }.frame(number)).await
}

/// Moves a path.
pub async fn move_path(session: &GuestSession, from: &str, to: &str, in_the_way: ExistingTarget) -> Result<(), Fault> {
    let (from, to, overwrite) = (from.to_owned(), to.to_owned(), in_the_way == ExistingTarget::Goes);
    done(session, |number| RenamePath { from, to, overwrite }.frame(number)).await
}

/// Sets permission bits.
pub async fn chmod(session: &GuestSession, path: &str, mode: u32, below: PathScope) -> Result<(), Fault> {
    let (path, recursive) = (path.to_owned(), below == PathScope::All);
    done(session, |number| SetMode { path, mode, recursive }.frame(number)).await
}

/// Lists a folder and everything below it.
pub async fn walk(session: &GuestSession, ask: WalkParams) -> Result<WalkResult, Fault> {
    let WalkParams { path, depth, entries_max } = ask;
    let mut channel = session.channel_since(TREES_SINCE)?.without_credit();
    channel.send(WalkDir { path, depth, entries_max }.frame(channel.number())).await?;
    let (mut walked, mut bytes) = (WalkResult { entries: Vec::new(), truncated: false }, 0);
    loop {
        let frame = next(&mut channel).await?;
        let last = frame.flags.is_end() || frame.kind == FrameKind::Error;
        if last {
            channel.finish();
        }
        let part: WalkEntries = parse(frame)?;
        let inside = part.entries.into_iter().filter(|entry| entry.name.split('/').all(is_plain));
        walked.entries.extend(inside.map(to_file_entry).inspect(|entry| bytes += memory_of(entry)));
        walked.truncated |= part.truncated || bytes > LISTING_BYTES_MAX;
        if walked.entries.len() > entries_max as usize {
            walked.entries.truncate(entries_max as usize);
            walked.truncated = true;
        }
        if last || walked.truncated {
            return Ok(walked);
        }
    }
}

/// Watches a path. Returns once the guest's watch is in place.
pub async fn watch(session: &GuestSession, path: &str, below: PathScope) -> Result<FileChangeStream, Fault> {
    let mut channel = session.channel_since(TREES_SINCE)?;
    let (path, recursive) = (path.to_owned(), below == PathScope::All);
    channel.send(WatchPath { path: path.clone(), recursive }.frame(channel.number())).await?;
    let first = patiently(&mut channel).await?;
    if first.kind == FrameKind::Error {
        channel.finish();
        return Err(refused(first, |error| match error.kind {
            ErrorKind::Full => Fault::new(FaultKind::Quota, "fs.too_many_watches", error.text),
            _ => guest_fault(error),
        }));
    }
    reply(first, FrameKind::Watching)?;
    Ok(Box::pin(stream::unfold(Some((channel, path)), |watch| async move {
        let (mut channel, path) = watch?;
        let changes = next_changes(&mut channel, &path).await;
        let goes_on = changes.is_ok();
        Some((changes, goes_on.then_some((channel, path))))
    })))
}

async fn next_changes(channel: &mut GuestChannel, watched: &str) -> Result<Vec<FileChange>, Fault> {
    // No timeout: there may be no change for any time.
    let frame = channel.next().await?;
    if frame.kind == FrameKind::Error {
        channel.finish();
    }
    channel.consumed(&frame.payload).await?;
    let changes =
        parse::<PathChanges>(frame)?.changes.into_iter().filter(|change| is_at_or_below(watched, &change.path));
    Ok(changes.map(change).collect())
}

/// Returns a folder as a tar archive.
pub async fn read_tree(session: &GuestSession, path: &str) -> Result<ByteStream, Fault> {
    let mut channel = session.channel_since(TREES_SINCE)?;
    channel.send(PathMessage { path: path.to_owned() }.frame(channel.number(), FrameKind::Pack)).await?;
    let first = next(&mut channel).await?;
    if first.kind == FrameKind::Error {
        channel.finish();
    }
    parse::<EntryMetadata>(first)?;
    Ok(Box::pin(stream::unfold(Some(channel), next_piece)))
}

/// Unpacks a tar archive below a folder.
pub async fn write_tree(session: &GuestSession, path: &str, mut body: ByteStream) -> Result<UnpackSummary, Fault> {
    let mut channel = session.channel_since(TREES_SINCE)?;
    channel.send(PathMessage { path: path.to_owned() }.frame(channel.number(), FrameKind::Unpack)).await?;
    let last = upload(&mut channel, &mut body).await?;
    if last.kind == FrameKind::Error {
        return Err(refused(last, |error| match error.kind {
            ErrorKind::Invalid => Fault::new(FaultKind::Caller, "fs.bad_archive", error.text),
            _ => guest_fault(error),
        }));
    }
    let wire::UnpackReply { entries, bytes } = parse(last)?;
    Ok(UnpackSummary { entries, bytes })
}

async fn done(session: &GuestSession, question: impl FnOnce(u32) -> Frame) -> Result<(), Fault> {
    let mut channel = session.channel_since(TREES_SINCE)?;
    channel.send(question(channel.number())).await?;
    let frame = patiently(&mut channel).await?;
    channel.finish();
    reply(frame, FrameKind::Done).map(drop)
}

/// Waits for the first answer about a tree, which may be large.
async fn patiently(channel: &mut GuestChannel) -> Result<Frame, Fault> {
    match tokio::time::timeout(TREE_DEADLINE, channel.next()).await {
        Ok(frame) => Ok(frame?),
        Err(_) => Err(LinkError::Deadline.into()),
    }
}

fn refused(frame: Frame, refusal: impl FnOnce(Error) -> Fault) -> Fault {
    Error::parse(&frame.payload).map_or_else(|error| LinkError::from(error).into(), refusal)
}

/// Returns whether a path from a guest is the watched one or below it, in plain names.
fn is_at_or_below(watched: &str, path: &str) -> bool {
    let Some(rest) = path.strip_prefix(watched.trim_end_matches('/')) else { return false };
    rest.trim_end_matches('/').is_empty() || rest.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_plain))
}

fn change(change: wire::PathChange) -> FileChange {
    let wire::PathChange { kind, path, folder, cookie } = change;
    let kind = match kind {
        wire::PathChangeKind::Created => FileChangeKind::Created,
        wire::PathChangeKind::Modified => FileChangeKind::Modified,
        wire::PathChangeKind::Written => FileChangeKind::Written,
        wire::PathChangeKind::Deleted => FileChangeKind::Deleted,
        wire::PathChangeKind::MovedFrom => FileChangeKind::MovedFrom,
        wire::PathChangeKind::MovedTo => FileChangeKind::MovedTo,
        wire::PathChangeKind::Attributes => FileChangeKind::Attributes,
        wire::PathChangeKind::Overflow => FileChangeKind::Overflow,
    };
    FileChange { kind, path, folder, cookie }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_elsewhere_are_not_told() {
        for (watched, path) in [("/srv", "/srv"), ("/srv/", "/srv"), ("/srv/", "/srv/a"), ("/", "/a/b"), ("/", "/")] {
            assert!(is_at_or_below(watched, path), "{watched} {path}");
        }
        for path in ["", "srv/a", "/srvice", "/etc/passwd", "/srv/../etc", "/srv/a/./b", "/srv//a", "/srv/a\0"] {
            assert!(!is_at_or_below("/srv", path), "{path:?}");
        }
    }
}
