//! One file from a sandbox. What has arrived is kept in a draft beside the file, so that an
//! interrupted copy can go on, and so that a broken one keeps the old file.

use std::{
    path::{Path, PathBuf},
    pin::pin,
};

use anyhow::{Context, bail};
use futures_util::{Stream, StreamExt};
use pandastack_client::{ClientError, wire::Entry};
use tokio::{
    fs::{File, OpenOptions},
    io::AsyncWriteExt,
};

use super::{Copied, CopyJob};
use crate::{advice::advise, exit::ExitReason};

/// Copies a file from a sandbox.
pub async fn download(job: &CopyJob<'_>, from: &str, to: &Path) -> anyhow::Result<Copied> {
    let Some(entry) = job.stat(from).await? else {
        return Err(ExitReason::NotFound.error(format!("there is no {from} in the sandbox")));
    };
    if entry.is_dir {
        bail!("{from} is a directory; copy it with -r");
    }
    let to = if to.is_dir() { to.join(&entry.name) } else { to.to_owned() };
    job.progress.total(entry.size);
    let has_same_size = tokio::fs::metadata(&to).await.is_ok_and(|meta| meta.is_file() && meta.len() == entry.size);
    if job.is_resumed && has_same_size && job.is_same_file(&to, from).await? {
        return Ok(Copied { path: to.display().to_string(), files: 0, bytes: 0, skipped: 1 });
    }
    let bytes = fetch(job, from, &entry, &to).await?;
    Ok(Copied { path: to.display().to_string(), files: 1, bytes, skipped: 0 })
}

/// Fetches a file of which the size and time are known.
pub async fn fetch(job: &CopyJob<'_>, from: &str, entry: &Entry, to: &Path) -> anyhow::Result<u64> {
    job.progress.file(&entry.name);
    let draft = draft_of(to, entry);
    let begun = tokio::fs::symlink_metadata(&draft).await.ok().filter(|meta| meta.is_file()).map(|meta| meta.len());
    let begun = begun.filter(|begun| job.is_resumed && *begun <= entry.size).unwrap_or(0);
    let written = match begun {
        0 => whole(job, from, &draft).await?,
        begun => rest(job, from, entry.size, &draft, begun).await?,
    };
    // Files of the kernel have no size, and a log may grow meanwhile.
    if written < entry.size {
        bail!("{from} has {} bytes and only {written} arrived; continue with --resume", entry.size);
    }
    tokio::fs::rename(&draft, to).await.with_context(|| format!("rename the download to {}", to.display()))?;
    Ok(written)
}

/// The draft has the size and the time of the file in its name: a file that has changed is not
/// mixed with its old beginning.
fn draft_of(to: &Path, entry: &Entry) -> PathBuf {
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{:x}-{:x}.part", entry.size, entry.mtime));
    to.with_file_name(name)
}

async fn whole(job: &CopyJob<'_>, from: &str, draft: &Path) -> anyhow::Result<u64> {
    let body = job.client.read(job.id, from).await.map_err(advise)?;
    // A draft that another program placed here is not written through, if it is a link.
    let _ = tokio::fs::remove_file(draft).await;
    let file = OpenOptions::new().write(true).create_new(true).open(draft).await;
    append(job, body, file.with_context(|| format!("create {}", draft.display()))?, draft).await
}

/// Continues a draft. The sandbox cuts the rest into pieces, because the API reads whole files.
async fn rest(job: &CopyJob<'_>, from: &str, size: u64, draft: &Path, begun: u64) -> anyhow::Result<u64> {
    let (scratch, mut offset) = (job.scratch(), begun);
    job.progress.add(begun);
    let mut done = Ok(());
    while offset < size && done.is_ok() {
        done = async {
            let wanted = job.piece_bytes.min(size - offset);
            job.cut(from, offset, wanted, &scratch).await?;
            let body = job.client.read(job.id, &scratch).await.map_err(advise)?;
            let file = OpenOptions::new().append(true).open(draft).await;
            let file = file.with_context(|| format!("open {}", draft.display()))?;
            match append(job, body, file, draft).await? {
                arrived if arrived == wanted => offset += arrived,
                _ => bail!("{from} changed while it was copied; copy it again without --resume"),
            }
            Ok(())
        }
        .await;
    }
    if offset > begun || done.is_err() {
        // It is only rubbish in the sandbox if this fails.
        let _ = job.client.delete_path(job.id, &scratch).await;
    }
    done.map(|()| offset)
}

async fn append(
    job: &CopyJob<'_>,
    body: impl Stream<Item = Result<bytes::Bytes, ClientError>>,
    mut file: File,
    draft: &Path,
) -> anyhow::Result<u64> {
    let (mut body, mut bytes) = (pin!(body), 0);
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(advise)?;
        file.write_all(&piece).await.with_context(|| format!("write {}", draft.display()))?;
        job.progress.add(piece.len() as u64);
        bytes += piece.len() as u64;
    }
    file.flush().await.with_context(|| format!("write {}", draft.display()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_belongs_to_one_version_of_a_file() {
        let entry = |size, mtime| Entry {
            name: "a".into(),
            path: "/a".into(),
            is_dir: false,
            size,
            mode: "f".into(),
            permissions: String::new(),
            mtime,
            target: None,
        };
        assert_eq!(draft_of(Path::new("x/a.bin"), &entry(255, 16)), Path::new("x/a.bin.ff-10.part"));
        assert_ne!(draft_of(Path::new("a"), &entry(255, 16)), draft_of(Path::new("a"), &entry(255, 17)));
    }
}
