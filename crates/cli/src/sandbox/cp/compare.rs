//! Which files need not be copied again: those that have the same size and the same contents on
//! both sides.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use anyhow::Context;
use pandastack_client::wire::Entry;
use sha2::{Digest, Sha256};

use super::{CopyJob, listing::LocalEntry};
use crate::output;

/// Files that the sandbox reads for one request. The longest paths still fit into its limit.
const COMPARED_AT_ONCE: usize = 200;

/// Bytes of a file that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// The two directories that are compared, and what is below them.
pub struct BothSides<'a> {
    pub local_root: &'a Path,
    pub guest_root: &'a str,
    pub local: &'a BTreeMap<PathBuf, LocalEntry>,
    pub guest: &'a BTreeMap<PathBuf, Entry>,
}

impl CopyJob<'_> {
    /// Finds the files that are the same, by relative path. Without a program for digests in the
    /// sandbox, the time of a file stands for its contents.
    pub async fn same_files(&self, sides: &BothSides<'_>) -> anyhow::Result<BTreeSet<PathBuf>> {
        let alike = sides.local.iter().filter_map(|(path, local)| {
            let guest = sides.guest.get(path)?;
            (local.is_file && guest.mode == "f" && local.size == guest.size).then_some((path, local, guest))
        });
        let alike: Vec<_> = alike.collect();
        let (mut same, mut compared) = (BTreeSet::new(), Vec::new());
        for (path, local, guest) in &alike {
            match local.size {
                0 => _ = same.insert((*path).clone()),
                _ => compared.push((*path, local.modified == guest.mtime)),
            }
        }
        self.progress.file("comparing");
        for batch in compared.chunks(COMPARED_AT_ONCE) {
            let paths: Vec<_> = batch.iter().map(|(path, _)| path.as_path()).collect();
            let Some(digests) = self.digests(sides.guest_root, &paths).await? else {
                output::warn("the sandbox has no sha256sum; sizes and times are compared, and not contents");
                same.extend(compared.iter().filter(|(_, is_same_time)| *is_same_time).map(|(path, _)| (*path).clone()));
                return Ok(same);
            };
            for path in paths {
                let Some(there) = digests.get(path) else { continue };
                if local_digest(sides.local_root.join(path)).await? == *there {
                    same.insert(path.to_owned());
                }
            }
        }
        Ok(same)
    }

    /// Tells whether two files of the same size have the same contents. Not known means no.
    pub async fn is_same_file(&self, local: &Path, guest: &str) -> anyhow::Result<bool> {
        let name = Path::new(guest.trim_start_matches('/'));
        match self.digests("/", &[name]).await?.and_then(|mut digests| digests.remove(name)) {
            Some(there) => Ok(local_digest(local.to_owned()).await? == there),
            None => Ok(false),
        }
    }
}

/// The SHA-256 of a file in hex.
async fn local_digest(path: PathBuf) -> anyhow::Result<String> {
    let shown = path.display().to_string();
    let read = move || -> io::Result<String> {
        let (mut digest, mut file, mut buffer) = (Sha256::new(), File::open(path)?, vec![0; READ_BYTES]);
        while let count @ 1.. = file.read(&mut buffer)? {
            digest.update(&buffer[..count]);
        }
        Ok(format!("{:x}", digest.finalize()))
    };
    tokio::task::spawn_blocking(read).await.context("compare files")?.with_context(|| format!("read {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_digest_is_what_sha256sum_prints() {
        let path = std::env::temp_dir().join(format!("pandastack-cp-digest-{}", std::process::id()));
        std::fs::write(&path, "abc").unwrap();
        let digest = local_digest(path.clone()).await.unwrap();
        assert_eq!(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        std::fs::remove_file(&path).unwrap();
    }
}
