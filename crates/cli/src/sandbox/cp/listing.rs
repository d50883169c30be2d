//! What is below a directory, here and in a sandbox, so that both sides can be compared.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, bail};
use pandastack_client::wire::Entry;

use super::CopyJob;
use crate::advice::advise;

/// The deepest level that is listed, which is the server's limit.
const DEPTH_MAX: u32 = 256;
/// The bits that say who may read, write and run a file.
const PERMISSIONS: u32 = 0o777;
/// Files that an error names at most.
const NAMED_MAX: usize = 5;

/// Everything below a directory of the sandbox, by relative path.
pub struct GuestListing {
    pub entries: BTreeMap<PathBuf, Entry>,
    /// Whether the server listed everything.
    pub is_whole: bool,
}

/// A file, directory or link on this computer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalEntry {
    pub is_file: bool,
    pub size: u64,
    /// Unix seconds.
    pub modified: i64,
    /// The nine permission bits.
    pub permissions: u32,
}

impl CopyJob<'_> {
    /// Lists a directory of the sandbox; `None` if there is none.
    pub async fn list(&self, path: &str) -> anyhow::Result<Option<GuestListing>> {
        let Some(entry) = self.stat(path).await? else { return Ok(None) };
        if !entry.is_dir {
            bail!("{path} is not a directory; copy it without -r");
        }
        let listing = self.client.walk(self.id, path, DEPTH_MAX).await.map_err(advise)?;
        let root = Path::new(&listing.path);
        let below = |entry: Entry| {
            let path = Path::new(&entry.path).strip_prefix(root).ok()?.to_owned();
            // The guest chose these names: one that leads elsewhere is not ours to follow.
            let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
            (is_plain && path.components().next().is_some()).then_some((path, entry))
        };
        let entries = listing.entries.into_iter().filter_map(below).collect();
        Ok(Some(GuestListing { entries, is_whole: !listing.truncated }))
    }
}

/// Lists everything below a directory. Links are not followed.
pub fn list_local(root: &Path) -> anyhow::Result<BTreeMap<PathBuf, LocalEntry>> {
    let (mut found, mut waiting) = (BTreeMap::new(), vec![PathBuf::new()]);
    while let Some(folder) = waiting.pop() {
        let shown = root.join(&folder);
        let entries = fs::read_dir(&shown).with_context(|| format!("read {}", shown.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("read {}", shown.display()))?;
            let meta = entry.metadata().with_context(|| format!("read {}", entry.path().display()))?;
            let path = folder.join(entry.file_name());
            if meta.is_dir() {
                waiting.push(path.clone());
            }
            let (is_file, size, modified) = (meta.is_file(), meta.len(), meta.mtime());
            found.insert(path, LocalEntry { is_file, size, modified, permissions: meta.mode() & PERMISSIONS });
        }
    }
    Ok(found)
}

/// Tells whether both sides have the same permissions. An old server does not say.
pub fn has_same_permissions(local: &LocalEntry, guest: &Entry) -> bool {
    let there = u32::from_str_radix(&guest.permissions, 8);
    there.map_or(true, |bits| bits & PERMISSIONS == local.permissions)
}

/// Fails if a file did not arrive whole.
pub fn verify<'a>(wrong: impl Iterator<Item = &'a Path>) -> anyhow::Result<()> {
    let wrong: Vec<_> = wrong.map(|path| path.display().to_string()).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    let more = if wrong.len() > NAMED_MAX { format!(" and {} more", wrong.len() - NAMED_MAX) } else { String::new() };
    let named = wrong.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    bail!("these files are missing or have another size: {named}{more}; continue with --resume")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_tree_is_listed_without_following_links() {
        let folder = std::env::temp_dir().join(format!("pandastack-cp-{}", std::process::id()));
        fs::create_dir_all(folder.join("a/b")).unwrap();
        fs::write(folder.join("a/b/c"), "123").unwrap();
        std::os::unix::fs::symlink("/", folder.join("root")).unwrap();
        let found = list_local(&folder).unwrap();
        let names: Vec<_> = found.iter().map(|(path, entry)| (path.to_str().unwrap(), entry.is_file)).collect();
        assert_eq!(names, [("a", false), ("a/b", false), ("a/b/c", true), ("root", false)]);
        assert_eq!(found[Path::new("a/b/c")].size, 3);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn many_wrong_files_are_counted() {
        let paths: Vec<_> = (0..7).map(|n| PathBuf::from(format!("f{n}"))).collect();
        let error = verify(paths.iter().map(PathBuf::as_path)).unwrap_err().to_string();
        assert!(error.contains("f0, f1, f2, f3, f4 and 2 more"), "{error}");
        assert!(verify(std::iter::empty()).is_ok());
    }
}
