//! A directory to a sandbox, as one archive. The local `tar` writes it.

use std::{collections::BTreeMap, os::unix::ffi::OsStrExt, path::Path, path::PathBuf, process::Stdio};

use anyhow::{Context, bail};
use futures_util::StreamExt;
use pandastack_client::Body;
use tokio::{
    io::AsyncWriteExt,
    process::{Child, ChildStdin, Command},
};
use tokio_util::io::ReaderStream;

use super::{
    Copied, CopyJob,
    compare::BothSides,
    listing::{LocalEntry, has_same_permissions, list_local, verify},
};
use crate::{advice::advise, output};

/// Copies the contents of a directory to a sandbox.
pub async fn upload_tree(job: &CopyJob<'_>, from: &Path, to: &str) -> anyhow::Result<Copied> {
    if !from.is_dir() {
        bail!("{} is not a directory", from.display());
    }
    let mut wanted = list_local(from)?;
    let files = |entries: &BTreeMap<PathBuf, LocalEntry>| entries.values().filter(|entry| entry.is_file).count() as u64;
    let all = files(&wanted);
    if job.is_resumed
        && let Some(there) = job.list(to).await?
    {
        let sides = BothSides { local_root: from, guest_root: to, local: &wanted, guest: &there.entries };
        let same = job.same_files(&sides).await?;
        let is_skipped = |path: &PathBuf, local: &LocalEntry| {
            same.contains(path) && there.entries.get(path).is_some_and(|guest| has_same_permissions(local, guest))
        };
        wanted.retain(|path, local| !is_skipped(path, local));
    }
    let bytes = wanted.values().filter(|entry| entry.is_file).map(|entry| entry.size).sum();
    let copied = Copied { path: to.to_owned(), files: files(&wanted), bytes, skipped: all - files(&wanted) };
    job.progress.total(bytes);
    send(job, from, &wanted, to).await?;
    // What was skipped was compared above.
    match job.list(to).await? {
        Some(there) if there.is_whole => {
            let arrived = |path: &Path, size| there.entries.get(path).is_some_and(|guest| guest.size == size);
            let files = wanted.iter().filter(|(_, local)| local.is_file);
            verify(files.filter(|(path, local)| !arrived(path, local.size)).map(|(path, _)| path.as_path()))?;
        }
        Some(_) => output::warn("the directory is too large to compare sizes"),
        None => bail!("{to} is not there after the copy; copy it again"),
    }
    Ok(copied)
}

/// Sends an archive of the chosen entries. An empty one makes the directory.
async fn send(job: &CopyJob<'_>, from: &Path, wanted: &BTreeMap<PathBuf, LocalEntry>, to: &str) -> anyhow::Result<()> {
    let mut tar = Command::new("tar");
    // Without links between files, each file has its own size in the archive.
    tar.args(["--create", "--file=-", "--no-recursion", "--hard-dereference", "--null"])
        .arg("--directory")
        .arg(from)
        .arg("--files-from=-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let mut tar = tar.spawn().context("start tar")?;
    let names = tar.stdin.take().context("write to tar")?;
    let archive = tar.stdout.take().context("read from tar")?;
    let count = job.progress.counter();
    let body = ReaderStream::new(archive).inspect(move |piece| count(piece.as_ref().map_or(0, |p| p.len() as u64)));
    let sent = job.client.write_tree(job.id, to, Body::wrap_stream(body));
    let (named, sent) = tokio::join!(name(names, wanted), sent);
    ended(tar).await?;
    sent.map_err(advise)?;
    named
}

/// Tells `tar` what to pack: parents before their children.
async fn name(mut to: ChildStdin, wanted: &BTreeMap<PathBuf, LocalEntry>) -> anyhow::Result<()> {
    let mut names = Vec::new();
    for path in wanted.keys() {
        // A name that begins with a hyphen is not an option.
        names.extend_from_slice(b"./");
        names.extend_from_slice(path.as_os_str().as_bytes());
        names.push(0);
    }
    // If `tar` has ended, it has reported the reason.
    let _ = to.write_all(&names).await;
    Ok(())
}

/// Waits for the end of `tar`.
pub async fn ended(mut tar: Child) -> anyhow::Result<()> {
    let status = tar.wait().await.context("wait for tar")?;
    if status.success() { Ok(()) } else { bail!("tar ended with {status}") }
}
