//! A directory from a sandbox: as one archive, which the local `tar` unpacks, or file by file if an
//! interrupted copy goes on. The guest chose the names, so nothing is written outside the target.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    pin::pin,
    process::Stdio,
    time::{Duration, SystemTime},
};

use anyhow::{Context, bail};
use futures_util::StreamExt;
use pandastack_client::wire::Entry;
use tokio::{io::AsyncWriteExt, process::Command};

use super::{
    Copied, CopyJob,
    compare::BothSides,
    download::fetch,
    listing::{GuestListing, list_local, verify},
    tree_up::ended,
};
use crate::{advice::advise, exit::ExitReason, output};

/// Copies the contents of a directory from a sandbox.
pub async fn download_tree(job: &CopyJob<'_>, from: &str, to: &Path) -> anyhow::Result<Copied> {
    let Some(listing) = job.list(from).await? else {
        return Err(ExitReason::NotFound.error(format!("there is no {from} in the sandbox")));
    };
    fs::create_dir_all(to).with_context(|| format!("create {}", to.display()))?;
    job.progress.total(listing.entries.values().filter(|entry| entry.mode == "f").map(|entry| entry.size).sum());
    let (skipped, skipped_bytes) = if job.is_resumed && listing.is_whole {
        one_by_one(job, from, &listing, to).await?
    } else {
        unpack(job, from, to).await?;
        (0, 0)
    };
    if !listing.is_whole {
        output::warn("the directory is too large to compare sizes");
    }
    let here = list_local(to)?;
    // A file that grew meanwhile is whole.
    let arrived = |path: &Path, size| here.get(path).is_some_and(|local| local.size >= size);
    let files = || listing.entries.iter().filter(|(_, guest)| guest.mode == "f");
    verify(files().filter(|(path, guest)| !arrived(path, guest.size)).map(|(path, _)| path.as_path()))?;
    let bytes = files().map(|(_, guest)| guest.size).sum::<u64>() - skipped_bytes;
    Ok(Copied { path: to.display().to_string(), files: files().count() as u64 - skipped, bytes, skipped })
}

/// Unpacks the archive of the whole directory.
async fn unpack(job: &CopyJob<'_>, from: &str, to: &Path) -> anyhow::Result<()> {
    let mut archive = pin!(job.client.read_tree(job.id, from).await.map_err(advise)?);
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--file=-", "--no-same-owner", "--directory"]).arg(to);
    let mut tar = tar.stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true).spawn().context("start tar")?;
    let mut sink = tar.stdin.take().context("write to tar")?;
    while let Some(piece) = archive.next().await {
        let piece = piece.map_err(advise)?;
        job.progress.add(piece.len() as u64);
        if sink.write_all(&piece).await.is_err() {
            // `tar` has reported the reason.
            break;
        }
    }
    drop(sink);
    ended(tar).await
}

/// Copies what is missing. Returns how many files were there already, and their bytes.
async fn one_by_one(job: &CopyJob<'_>, from: &str, listing: &GuestListing, to: &Path) -> anyhow::Result<(u64, u64)> {
    let (here, mut skipped, mut skipped_bytes) = (list_local(to)?, 0, 0);
    let sides = BothSides { local_root: to, guest_root: from, local: &here, guest: &listing.entries };
    let same = job.same_files(&sides).await?;
    for (path, guest) in listing.entries.iter().filter(|(_, guest)| guest.mode != "l") {
        let target = to.join(path);
        refuse_links(to, path)?;
        match guest.mode.as_str() {
            "d" => fs::create_dir_all(&target).with_context(|| format!("create {}", target.display()))?,
            "f" if same.contains(path) => {
                skipped += 1;
                skipped_bytes += guest.size;
                job.progress.add(guest.size);
            }
            "f" => {
                fetch(job, &guest.path, guest, &target).await?;
                set_facts(&target, guest).with_context(|| format!("set the time of {}", target.display()))?;
            }
            _ => output::warn(&format!("{} is not a file; it is left out", guest.path)),
        }
    }
    // Links come last, so that no file is written through one of them.
    for (path, guest) in listing.entries.iter().filter(|(_, guest)| guest.mode == "l") {
        let Some(target) = &guest.target else { continue };
        let link = to.join(path);
        refuse_links(to, path)?;
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(target, &link).with_context(|| format!("create {}", link.display()))?;
    }
    Ok((skipped, skipped_bytes))
}

/// Fails if a parent of a path is a link, which could lead out of the target.
fn refuse_links(root: &Path, path: &Path) -> anyhow::Result<()> {
    let mut folder = root.to_owned();
    for part in path.parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        if fs::symlink_metadata(&folder).is_ok_and(|meta| meta.is_symlink()) {
            bail!("{} is a link; remove it and copy again", folder.display());
        }
    }
    Ok(())
}

/// Sets time and permissions, as `tar` does.
fn set_facts(path: &Path, guest: &Entry) -> std::io::Result<()> {
    let file = fs::OpenOptions::new().write(true).open(path)?;
    let seconds = Duration::from_secs(guest.mtime.unsigned_abs());
    let modified = if guest.mtime < 0 { SystemTime::UNIX_EPOCH - seconds } else { SystemTime::UNIX_EPOCH + seconds };
    file.set_modified(modified)?;
    match u32::from_str_radix(&guest.permissions, 8) {
        // The bits that let a program run as its owner are not taken from a guest.
        Ok(mode) => file.set_permissions(fs::Permissions::from_mode(mode & 0o777)),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_through_a_link() {
        let root = std::env::temp_dir().join(format!("pandastack-cp-links-{}", std::process::id()));
        fs::create_dir_all(root.join("real")).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("link")).unwrap();
        assert!(refuse_links(&root, Path::new("real/x")).is_ok());
        assert!(refuse_links(&root, Path::new("new/x")).is_ok());
        assert!(refuse_links(&root, Path::new("link/passwd")).unwrap_err().to_string().contains("is a link"));
        fs::remove_dir_all(&root).unwrap();
    }
}
