//! Sends a folder or one file as a tar archive, as fast as the host reads it. Names are relative to
//! the folder. Links stay links. Devices, sockets, pipes and the kernel's virtual file systems are
//! left out.

use std::{
    ffi::OsString,
    fs::{self, File, Metadata},
    io::{self, Read as _},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use bytes::{Bytes, BytesMut};
use nix::sys::statfs::{
    BPF_FS_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, DEVPTS_SUPER_MAGIC, PROC_SUPER_MAGIC, SECURITYFS_MAGIC,
    SYSFS_MAGIC, TRACEFS_MAGIC, statfs,
};
use pandastack_wire_guest::{self as wire, EntryMetadata, Frame, Message};

use super::{
    FileError, absolute,
    entry::{self, PERMISSIONS},
    failed,
    list::names,
    tar::{BLOCK_BYTES, TarHeader, TarKind},
};
use crate::{
    limits,
    session::{AgentChannel, GuestFault},
};

/// Sends `EntryMetadata`, then the archive; returns the last frame.
pub(crate) async fn pack(
    channel: &AgentChannel,
    wire::PathMessage { path }: wire::PathMessage,
) -> Result<Frame, GuestFault> {
    let path = absolute(&path)?;
    // A link as the argument is followed.
    let meta = fs::metadata(path).map_err(failed("stat", path))?;
    if !meta.is_dir() && !meta.is_file() {
        return Err(FileError::NotAFile { path: path.display().to_string() }.into());
    }
    let names = if meta.is_dir() { names(path).await? } else { Vec::new() };
    channel.send(EntryMetadata { entry: entry::describe(path, &meta) }.frame(channel.id)).await;
    let mut sink = FrameSink { channel, buffer: BytesMut::new() };
    if meta.is_dir() {
        folder(&mut sink, path, meta.dev(), names).await?;
    } else {
        let name = path.file_name().map_or(&b"file"[..], OsStrExt::as_bytes);
        file(&mut sink, path, name).await?;
    }
    sink.put(&[0; 2 * BLOCK_BYTES]).await;
    sink.flush().await;
    Ok(Frame::new(channel.id, wire::FrameKind::Data, Bytes::new()).end())
}

/// A folder on the current path of the walk.
struct Level {
    /// Path relative to the root.
    folder: PathBuf,
    device: u64,
    names: std::vec::IntoIter<OsString>,
}

async fn folder(sink: &mut FrameSink<'_>, root: &Path, device: u64, top: Vec<OsString>) -> Result<(), GuestFault> {
    let mut levels = vec![Level { folder: PathBuf::new(), device, names: top.into_iter() }];
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.names.next() else {
            levels.pop();
            continue;
        };
        let (below, device) = (level.folder.join(name), level.device);
        let path = root.join(&below);
        // Deleted in the meantime, so it is left out.
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        let name = below.as_os_str().as_bytes();
        if meta.is_file() {
            file(sink, &path, name).await?;
        } else if meta.is_symlink() {
            let Ok(target) = fs::read_link(&path) else { continue };
            let header =
                TarHeader { link: target.as_os_str().as_bytes().to_vec(), ..plain(TarKind::Symlink, name, &meta) };
            sink.put(&header.encode()).await;
        } else if meta.is_dir() {
            let header = plain(TarKind::Folder, &[name, b"/"].concat(), &meta);
            sink.put(&header.encode()).await;
            if meta.dev() != device && is_pretended(&path) {
                continue;
            }
            if levels.len() >= limits::DEPTH_MAX {
                return Err(FileError::TooDeep { path: root.display().to_string() }.into());
            }
            match names(&path).await {
                Ok(names) => levels.push(Level { folder: below, device: meta.dev(), names: names.into_iter() }),
                Err(FileError::System { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Sends a file with the size it has when it is opened. If it shrinks meanwhile, it is padded; if
/// it grows, it is cut.
async fn file(sink: &mut FrameSink<'_>, path: &Path, name: &[u8]) -> Result<(), GuestFault> {
    // Non-blocking, because the file may have become a pipe.
    let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let mut file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(failed("open", path))?,
    };
    let meta = file.metadata().map_err(failed("stat", path))?;
    if !meta.is_file() {
        return Ok(());
    }
    sink.put(&TarHeader { size: meta.len(), ..plain(TarKind::File, name, &meta) }.encode()).await;
    let mut left = meta.len();
    while left > 0 {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(limits::FILE_CHUNK_BYTES);
        let mut chunk = Vec::with_capacity(count);
        file.by_ref().take(count as u64).read_to_end(&mut chunk).map_err(failed("read", path))?;
        if chunk.is_empty() {
            chunk.resize(count, 0);
        }
        left -= chunk.len() as u64;
        sink.put(&chunk).await;
        // The disk read may have blocked the other tasks.
        tokio::task::yield_now().await;
    }
    let odd = usize::try_from(meta.len() % BLOCK_BYTES as u64).unwrap_or(0);
    sink.put(&[0; BLOCK_BYTES][..(BLOCK_BYTES - odd) % BLOCK_BYTES]).await;
    Ok(())
}

fn plain(kind: TarKind, name: &[u8], meta: &Metadata) -> TarHeader {
    let mode = meta.mode() & PERMISSIONS;
    TarHeader { kind, name: name.to_vec(), link: Vec::new(), mode, size: 0, modified: meta.mtime() }
}

/// Whether a folder is on a virtual file system of the kernel, whose contents are endless and not
/// files.
fn is_pretended(path: &Path) -> bool {
    let insides = [
        PROC_SUPER_MAGIC,
        SYSFS_MAGIC,
        DEVPTS_SUPER_MAGIC,
        CGROUP2_SUPER_MAGIC,
        DEBUGFS_MAGIC,
        TRACEFS_MAGIC,
        SECURITYFS_MAGIC,
        BPF_FS_MAGIC,
    ];
    statfs(path).is_ok_and(|found| insides.contains(&found.filesystem_type()))
}

/// Collects small pieces into large frames.
struct FrameSink<'a> {
    channel: &'a AgentChannel,
    buffer: BytesMut,
}

impl FrameSink<'_> {
    async fn put(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= limits::FILE_CHUNK_BYTES {
            self.flush().await;
        }
    }

    async fn flush(&mut self) {
        while !self.buffer.is_empty() {
            let room = self.channel.room(self.buffer.len().min(limits::FILE_CHUNK_BYTES)).await;
            let piece = self.buffer.split_to(room.bytes.min(self.buffer.len())).freeze();
            room.send(Frame::new(self.channel.id, wire::FrameKind::Data, piece));
        }
    }
}
