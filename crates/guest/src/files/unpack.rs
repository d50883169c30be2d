//! Unpacks a tar archive below a folder. Absolute names, names with `..` and links that lead
//! outside are refused. The kernel also resolves every name beneath the folder, so no chain of
//! links can lead a write out of it. Entries that were written before a refusal stay.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write as _},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    rc::Rc,
};

use bytes::{Buf, Bytes, BytesMut};
use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2, renameat},
    sys::{
        stat::{Mode, fchmod, futimens, mkdirat},
        time::TimeSpec,
    },
    unistd::{UnlinkatFlags, linkat, symlinkat, unlinkat},
};
use pandastack_wire_guest::{self as wire, ErrorKind, Frame, Message, UnpackReply};

use super::{
    absolute,
    entry::PERMISSIONS,
    failed,
    tar::{BLOCK_BYTES, TarBlock, TarError, TarExtension, TarHeader, TarKind},
};
use crate::{
    Agent, limits,
    session::{AgentChannel, GuestFault, kind_of},
};

/// Mode of parent folders that the archive does not contain.
const FOLDER_MODE: Mode = Mode::from_bits_truncate(0o755);

/// An archive that is refused.
#[derive(Debug, thiserror::Error)]
enum UnpackError {
    #[error("not a tar archive")]
    Malformed(#[from] TarError),
    #[error("the archive ends in the middle of an entry")]
    Cut,
    #[error("a name, link or header in the archive is too long")]
    TooLong,
    #[error("entry {name} has an absolute path, or a path with ..")]
    Name { name: String },
    #[error("link {name} leads outside the directory, to {target}")]
    Link { name: String, target: String },
    #[error("entry {name} is not a file, directory or link")]
    Kind { name: String },
    #[error("entry {name} is below a link that leads outside the directory")]
    Outside { name: String },
    #[error("entry {name} is larger than the maximum file size")]
    Size { name: String },
    #[error("{act} {name}")]
    System {
        act: &'static str,
        name: String,
        #[source]
        cause: io::Error,
    },
}

impl From<UnpackError> for GuestFault {
    fn from(error: UnpackError) -> Self {
        let kind = match &error {
            UnpackError::System { cause, .. } => match kind_of(cause) {
                // A folder is where a file must go, or the reverse.
                ErrorKind::Failed if cause.kind() == io::ErrorKind::AlreadyExists => ErrorKind::WrongType,
                // The caller's path exists: the archive names something that it does not contain.
                ErrorKind::Missing => ErrorKind::Invalid,
                kind => kind,
            },
            _ => ErrorKind::Invalid,
        };
        GuestFault::describe(kind, &error)
    }
}

/// Receives an archive and returns the last frame.
pub(crate) async fn unpack(
    agent: &Rc<Agent>,
    channel: &AgentChannel,
    ask: wire::PathMessage,
) -> Result<Frame, GuestFault> {
    let path = absolute(&ask.path)?;
    agent.writable().await;
    fs::create_dir_all(path).map_err(failed("create the directory", path))?;
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = nix::fcntl::open(path, flags, Mode::empty()).map_err(|cause| failed("open", path)(cause.into()))?;
    let source = ArchiveInput { channel: Some(channel), buffer: BytesMut::new() };
    let mut unpacking = Unpacking { agent: Some(agent), source, root, drafts: 0 };
    let done = unpacking.run().await?;
    Ok(done.frame(channel.id))
}

/// Unpacks an archive in memory, for a fuzzer.
pub(crate) async fn unpack_whole(archive: &[u8], folder: &Path) -> Result<UnpackReply, String> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = nix::fcntl::open(folder, flags, Mode::empty()).map_err(|cause| cause.to_string())?;
    let source = ArchiveInput { channel: None, buffer: BytesMut::from(archive) };
    let mut unpacking = Unpacking { agent: None, source, root, drafts: 0 };
    unpacking.run().await.map_err(|error| error.to_string())
}

struct Unpacking<'a> {
    /// Holds writes back while file systems are frozen. Absent if the archive did not come over a
    /// channel.
    agent: Option<&'a Agent>,
    source: ArchiveInput<'a>,
    root: OwnedFd,
    drafts: u32,
}

/// A name in an archive: parts without a separator, none of them `.` or `..`.
struct PathParts<'a>(Vec<&'a [u8]>);

impl Unpacking<'_> {
    /// Waits until files may be written.
    async fn writable(&self) {
        if let Some(agent) = self.agent {
            agent.writable().await;
        }
    }

    async fn run(&mut self) -> Result<UnpackReply, UnpackError> {
        let mut done = UnpackReply { entries: 0, bytes: 0 };
        let mut next = TarExtension::default();
        while let Some(block) = self.source.block().await? {
            let Some(mut header) = TarHeader::parse(&block)? else { break };
            match header.kind {
                TarKind::LongName => next.name = Some(self.carried(&header).await?),
                TarKind::LongLink => next.link = Some(self.carried(&header).await?),
                TarKind::Extended => {
                    let found = TarExtension::parse(&self.extension(&header).await?)?;
                    next = TarExtension {
                        name: found.name.or(next.name),
                        link: found.link.or(next.link),
                        size: found.size,
                        modified: found.modified,
                    };
                }
                TarKind::Global => drop(self.extension(&header).await?),
                _ => {
                    let said = std::mem::take(&mut next);
                    header.name = said.name.unwrap_or(header.name);
                    header.link = said.link.unwrap_or(header.link);
                    header.size = said.size.unwrap_or(header.size);
                    header.modified = said.modified.unwrap_or(header.modified);
                    done.bytes += self.entry(&header).await?;
                    done.entries += 1;
                }
            }
        }
        // Data after the end is padding and is ignored.
        self.source.drain().await;
        Ok(done)
    }

    /// Reads the text that an entry carries for the next one.
    async fn carried(&mut self, header: &TarHeader) -> Result<Vec<u8>, UnpackError> {
        let mut text = self.extension(header).await?;
        while text.last() == Some(&0) {
            text.pop();
        }
        Ok(text)
    }

    async fn extension(&mut self, header: &TarHeader) -> Result<Vec<u8>, UnpackError> {
        let size = usize::try_from(header.size).ok().filter(|size| *size <= limits::TAR_EXTENSION_BYTES_MAX);
        let size = size.ok_or(UnpackError::TooLong)?;
        let mut data = self.source.exactly(size.next_multiple_of(BLOCK_BYTES)).await?;
        data.truncate(size);
        Ok(data.to_vec())
    }

    /// Writes one entry and returns the size of its file.
    async fn entry(&mut self, header: &TarHeader) -> Result<u64, UnpackError> {
        let PathParts(parts) = parts(&header.name)?;
        let Some((name, above)) = parts.split_last() else {
            // The folder itself.
            return self.skip(header.size).await;
        };
        self.writable().await;
        let folder = self.folder(above, &header.name)?;
        let name = OsStr::from_bytes(name);
        match header.kind {
            TarKind::File => {
                self.file(&folder, name, header).await?;
                return Ok(header.size);
            }
            TarKind::Folder => make_folder(&folder, name, header)?,
            TarKind::Symlink => {
                check_target(above.len(), header)?;
                remove(&folder, name, header)?;
                symlinkat(OsStr::from_bytes(&header.link), &folder, name)
                    .map_err(refused("create the link", header))?;
            }
            TarKind::HardLink => {
                let PathParts(target) = parts_of_link(header)?;
                let Some((last, above)) = target.split_last() else { return Err(outside_link(header)) };
                let from = self.folder(above, &header.name)?;
                remove(&folder, name, header)?;
                linkat(&from, OsStr::from_bytes(last), &folder, name, AtFlags::empty())
                    .map_err(refused("create the link", header))?;
            }
            _ => return Err(UnpackError::Kind { name: shown(&header.name) }),
        }
        self.skip(header.size).await
    }

    /// Opens the folder of an entry, and creates its missing parents.
    fn folder(&self, above: &[&[u8]], name: &[u8]) -> Result<OwnedFd, UnpackError> {
        let refused = |cause: Errno| match cause {
            Errno::EXDEV => UnpackError::Outside { name: shown(name) },
            cause => UnpackError::System { act: "open the directory of", name: shown(name), cause: cause.into() },
        };
        match beneath(&self.root, &above.join(&b'/')) {
            Err(Errno::ENOENT) => {}
            opened => return opened.map_err(refused),
        }
        for count in 1..=above.len() {
            let folder = beneath(&self.root, &above[..count - 1].join(&b'/')).map_err(refused)?;
            match mkdirat(&folder, OsStr::from_bytes(above[count - 1]), FOLDER_MODE) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(cause) => return Err(refused(cause)),
            }
        }
        beneath(&self.root, &above.join(&b'/')).map_err(refused)
    }

    /// Receives a file into a temporary file, and then renames it, so that a partial file is never
    /// visible.
    async fn file(&mut self, folder: &OwnedFd, name: &OsStr, header: &TarHeader) -> Result<(), UnpackError> {
        if header.size > limits::TAR_FILE_BYTES_MAX {
            return Err(UnpackError::Size { name: shown(&header.name) });
        }
        self.drafts = self.drafts.wrapping_add(1);
        let draft = format!(".pandastack-{}-t{}.part", std::process::id(), self.drafts);
        let mut draft = TemporaryFile::create(folder, draft, header)?;
        let mut left = header.size;
        while left > 0 {
            let piece = self.source.at_most(left).await?;
            self.writable().await;
            let written = draft.file.write_all(&piece);
            written.map_err(|cause| system("write", header, cause))?;
            left -= piece.len() as u64;
            tokio::task::yield_now().await;
        }
        self.writable().await;
        draft.publish(name, header)?;
        let odd = header.size % BLOCK_BYTES as u64;
        self.source.skip((BLOCK_BYTES as u64 - odd) % BLOCK_BYTES as u64).await
    }

    async fn skip(&mut self, size: u64) -> Result<u64, UnpackError> {
        let padded = size.checked_next_multiple_of(BLOCK_BYTES as u64).ok_or(UnpackError::Cut)?;
        self.source.skip(padded).await?;
        Ok(0)
    }
}

/// A temporary file that is deleted when this value is dropped, unless it was published.
struct TemporaryFile<'a> {
    folder: &'a OwnedFd,
    name: String,
    file: File,
    published: bool,
}

impl<'a> TemporaryFile<'a> {
    fn create(folder: &'a OwnedFd, name: String, header: &TarHeader) -> Result<Self, UnpackError> {
        // Left over after a crash of the machine.
        let _ = unlinkat(folder, name.as_str(), UnlinkatFlags::NoRemoveDir);
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = openat(folder, name.as_str(), flags, Mode::from_bits_truncate(0o600));
        let file = file.map_err(refused("make", header))?.into();
        Ok(Self { folder, name, file, published: false })
    }

    fn publish(mut self, name: &OsStr, header: &TarHeader) -> Result<(), UnpackError> {
        fchmod(&self.file, mode(header)).map_err(refused("set the mode of", header))?;
        let modified = TimeSpec::new(header.modified, 0);
        // A time that the file system cannot store is not an error.
        let _ = futimens(&self.file, &TimeSpec::UTIME_NOW, &modified);
        renameat(self.folder, self.name.as_str(), self.folder, name).map_err(refused("rename into place", header))?;
        self.published = true;
        Ok(())
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if !self.published {
            let _ = unlinkat(self.folder, self.name.as_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}

fn make_folder(parent: &OwnedFd, name: &OsStr, header: &TarHeader) -> Result<(), UnpackError> {
    match mkdirat(parent, name, FOLDER_MODE) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(cause) => return Err(refused("create the directory", header)(cause)),
    }
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let made = openat(parent, name, flags, Mode::empty()).map_err(refused("create the directory", header))?;
    fchmod(&made, mode(header)).map_err(refused("set the mode of", header))
}

/// Removes an existing entry to make place for a link. Fails for a folder.
fn remove(folder: &OwnedFd, name: &OsStr, header: &TarHeader) -> Result<(), UnpackError> {
    match unlinkat(folder, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(cause) => Err(refused("replace", header)(cause)),
    }
}

/// Opens a folder whose path, links included, never leaves the root.
fn beneath(root: &OwnedFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let path = if path.is_empty() { b"." } else { path };
    openat2(root.as_fd(), Path::new(OsStr::from_bytes(path)), how)
}

fn mode(header: &TarHeader) -> Mode {
    Mode::from_bits_truncate(header.mode & PERMISSIONS)
}

/// Splits and validates a name.
fn parts(name: &[u8]) -> Result<PathParts<'_>, UnpackError> {
    let bad = || UnpackError::Name { name: shown(name) };
    if name.is_empty() || name.starts_with(b"/") || name.contains(&0) {
        return Err(bad());
    }
    let parts: Vec<_> = name.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    if parts.contains(&&b".."[..]) {
        return Err(bad());
    }
    if parts.len() > limits::DEPTH_MAX {
        return Err(UnpackError::TooLong);
    }
    Ok(PathParts(parts))
}

fn parts_of_link(header: &TarHeader) -> Result<PathParts<'_>, UnpackError> {
    parts(&header.link).map_err(|_| outside_link(header))
}

/// Checks the target of a symbolic link in a folder `level` levels down.
fn check_target(level: usize, header: &TarHeader) -> Result<(), UnpackError> {
    let target = &header.link;
    if target.is_empty() || target.starts_with(b"/") || target.contains(&0) {
        return Err(outside_link(header));
    }
    let mut level = level;
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => level = level.checked_sub(1).ok_or_else(|| outside_link(header))?,
            _ => level += 1,
        }
    }
    Ok(())
}

fn outside_link(header: &TarHeader) -> UnpackError {
    UnpackError::Link { name: shown(&header.name), target: shown(&header.link) }
}

fn refused(act: &'static str, header: &TarHeader) -> impl FnOnce(Errno) -> UnpackError {
    move |cause| system(act, header, cause.into())
}

fn system(act: &'static str, header: &TarHeader, cause: io::Error) -> UnpackError {
    UnpackError::System { act, name: shown(&header.name), cause }
}

/// Quotes a name for messages, cut to a maximum length.
fn shown(name: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(name).into_owned();
    text.truncate(text.floor_char_boundary(200));
    format!("{text:?}")
}

/// The archive as it arrives.
struct ArchiveInput<'a> {
    channel: Option<&'a AgentChannel>,
    buffer: BytesMut,
}

impl ArchiveInput<'_> {
    /// Waits for more bytes. Returns false at the end.
    async fn more(&mut self) -> bool {
        let Some(channel) = self.channel else { return false };
        let Some(bytes) = channel.take_input().await else { return false };
        channel.credit_back(bytes.len()).await;
        if self.buffer.is_empty() {
            self.buffer = bytes.into();
        } else {
            self.buffer.extend_from_slice(&bytes);
        }
        true
    }

    /// Returns the next block; `None` if the archive ends before it.
    async fn block(&mut self) -> Result<Option<TarBlock>, UnpackError> {
        while self.buffer.len() < BLOCK_BYTES {
            if !self.more().await {
                return if self.buffer.is_empty() { Ok(None) } else { Err(UnpackError::Cut) };
            }
        }
        let mut block = [0; BLOCK_BYTES];
        self.buffer.copy_to_slice(&mut block);
        Ok(Some(block))
    }

    /// Returns exactly `count` bytes. They are held in memory, so `count` must be small.
    async fn exactly(&mut self, count: usize) -> Result<BytesMut, UnpackError> {
        while self.buffer.len() < count {
            if !self.more().await {
                return Err(UnpackError::Cut);
            }
        }
        Ok(self.buffer.split_to(count))
    }

    /// Returns at least one byte and at most `count`.
    async fn at_most(&mut self, count: u64) -> Result<Bytes, UnpackError> {
        while self.buffer.is_empty() {
            if !self.more().await {
                return Err(UnpackError::Cut);
            }
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.buffer.len()).min(limits::FILE_CHUNK_BYTES);
        Ok(self.buffer.split_to(count).freeze())
    }

    async fn skip(&mut self, count: u64) -> Result<(), UnpackError> {
        let mut left = count;
        while left > 0 {
            left -= self.at_most(left).await?.len() as u64;
        }
        Ok(())
    }

    async fn drain(&mut self) {
        self.buffer.clear();
        while self.more().await {
            self.buffer.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &[u8], target: &[u8]) -> TarHeader {
        let (name, link) = (name.to_vec(), target.to_vec());
        TarHeader { kind: TarKind::Symlink, name, link, mode: 0o777, size: 0, modified: 0 }
    }

    #[test]
    fn names_stay_inside() {
        for good in ["a", "./a/b/", "a//b", "..a/b..", "..."] {
            assert!(parts(good.as_bytes()).is_ok(), "{good}");
        }
        assert!(parts(b"./").is_ok_and(|PathParts(parts)| parts.is_empty()));
        for bad in ["", "/a", "..", "a/../b", "a/..", "./../a", "a\0b"] {
            assert!(parts(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn links_lead_inside() {
        for (level, target) in [(0, "a"), (1, "../a"), (2, "../../a/../b"), (0, "a/.."), (1, "..")] {
            assert!(check_target(level, &link(b"x", target.as_bytes())).is_ok(), "{level} {target}");
        }
        for (level, target) in [(0, ".."), (0, "/etc/passwd"), (1, "../../a"), (0, "a/../../b"), (0, ""), (3, "a\0b")] {
            assert!(check_target(level, &link(b"x", target.as_bytes())).is_err(), "{level} {target}");
        }
    }
}
