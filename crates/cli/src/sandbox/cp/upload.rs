//! One file to a sandbox. A large one goes in pieces, so that an interrupted copy can go on.

use std::{
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context, bail};
use futures_util::StreamExt;
use pandastack_client::{Body, wire::tree::MovePath};
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncSeekExt, SeekFrom},
};
use tokio_util::io::ReaderStream;

use super::{Copied, CopyJob};
use crate::advice::advise;

/// Copies a file to a sandbox.
pub async fn upload(job: &CopyJob<'_>, from: &Path, to: &str) -> anyhow::Result<Copied> {
    let file = File::open(from).await.with_context(|| format!("open {}", from.display()))?;
    let meta = file.metadata().await?;
    if meta.is_dir() {
        bail!("{} is a directory; copy it with -r", from.display());
    }
    let name = from.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let path = if to.ends_with('/') { format!("{to}{name}") } else { to.to_owned() };
    job.progress.file(&name);
    if job.is_resumed
        && meta.is_file()
        && job.stat(&path).await?.is_some_and(|there| there.mode == "f" && there.size == meta.len())
        && job.is_same_file(from, &path).await?
    {
        return Ok(Copied { path, files: 0, bytes: 0, skipped: 1 });
    }
    // A pipe has no size, so it goes as it comes.
    if meta.is_file() && meta.len() > job.piece_bytes {
        let bytes = in_pieces(job, file, (meta.len(), meta.mtime()), &path).await?;
        return Ok(Copied { path, files: 1, bytes, skipped: 0 });
    }
    if meta.is_file() {
        job.progress.total(meta.len());
    }
    let bytes = put(job, file, u64::MAX, &path).await?;
    if meta.is_file() && bytes != meta.len() {
        bail!("{} has {} bytes and {bytes} were written; it changed meanwhile", from.display(), meta.len());
    }
    Ok(Copied { path, files: 1, bytes, skipped: 0 })
}

/// Sends a large file. The draft has the size and the time of the file in its name: a file that has
/// changed is not mixed with its old beginning.
async fn in_pieces(job: &CopyJob<'_>, mut file: File, version: (u64, i64), path: &str) -> anyhow::Result<u64> {
    let (size, modified) = version;
    let draft = format!("{path}.{size:x}-{modified:x}.part");
    let piece = format!("{draft}.piece");
    job.progress.total(size);
    let begun = job.stat(&draft).await?.map(|entry| entry.size);
    let mut offset = begun.filter(|begun| job.is_resumed && *begun <= size).unwrap_or(0);
    if begun.is_some() && offset == 0 {
        job.client.delete_path(job.id, &draft).await.map_err(advise)?;
    }
    job.progress.add(offset);
    while offset < size {
        file.seek(SeekFrom::Start(offset)).await.context("read the file")?;
        let wanted = job.piece_bytes.min(size - offset);
        let sent = put(job, file.try_clone().await.context("read the file")?, wanted, &piece).await?;
        if sent != wanted {
            bail!("the file became shorter while it was copied; copy it again");
        }
        job.join(&piece, &draft).await?;
        offset += sent;
    }
    let written = job.stat(&draft).await?.map_or(0, |entry| entry.size);
    if written != size {
        bail!("{draft} has {written} bytes instead of {size}; copy the file again without --resume");
    }
    let ask = MovePath { from: Some(draft), to: Some(path.to_owned()), overwrite: true };
    job.client.move_path(job.id, &ask).await.map_err(advise)?;
    Ok(size)
}

/// Writes a file of the sandbox. Returns the number of bytes, which the server has confirmed.
async fn put(job: &CopyJob<'_>, file: File, bytes_max: u64, path: &str) -> anyhow::Result<u64> {
    let (count, sent) = (job.progress.counter(), Arc::new(AtomicU64::new(0)));
    let counted = sent.clone();
    let body = ReaderStream::new(file.take(bytes_max)).inspect(move |piece| {
        if let Ok(piece) = piece {
            count(piece.len() as u64);
            counted.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
    });
    let written = job.client.write(job.id, path, Body::wrap_stream(body)).await.map_err(advise)?.bytes;
    let sent = sent.load(Ordering::Relaxed);
    if written != sent {
        bail!("{sent} bytes were sent and {written} were written to {path}; copy it again");
    }
    Ok(written)
}
