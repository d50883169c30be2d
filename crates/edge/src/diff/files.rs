//! Compares the files of two guests: by what a listing shows, and young small files by content.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{FileEntry, FileKind, WalkParams, WalkResult};
use pandastack_wire_public::FileDiff;

use crate::{
    Edge,
    limits::{
        DIFF_BYTES_MAX, DIFF_CONTENT_BYTES_MAX, DIFF_CONTENTS_MAX, DIFF_DEPTH_MAX, DIFF_ENTRIES_MAX, DIFF_FILES_MAX,
        DIFF_FOLDERS_MAX, DIFF_READS_AT_ONCE, TREE_ENTRIES_MAX,
    },
};

/// Folders of the root that hold no work: devices, and programs of the template. Of `usr` only the
/// part for local programs is compared.
const SKIPPED: [&str; 12] =
    ["proc", "sys", "dev", "run", "boot", "usr", "lib", "lib32", "lib64", "bin", "sbin", "lost+found"];
const LOCAL: &str = "/usr/local";

/// Files in which every sandbox has its own name. They tell nothing of what was done.
const NAMES: [&str; 3] = ["/etc/hostname", "/etc/hosts", "/etc/machine-id"];

/// What differs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FoundDiffs {
    pub files: Vec<FileDiff>,
    pub truncated: bool,
    /// Whether one of the guests has one of the folders.
    pub exists: bool,
}

/// The entries of a guest, by path. Their own names are empty.
type Listing = BTreeMap<String, FileEntry>;

/// Returns the folders that are compared by default: those of either root. Returns also whether
/// there are more.
pub async fn folders(edge: &Edge, (here, there): (SandboxId, SandboxId)) -> Result<(Vec<String>, bool), Fault> {
    let (left, right) = tokio::try_join!(edge.host.list_dir(here, "/"), edge.host.list_dir(there, "/"))?;
    let names = left.into_iter().chain(right).filter(|entry| entry.kind == FileKind::Directory);
    let named = names.map(|entry| entry.name).filter(|name| is_name(name) && !SKIPPED.contains(&name.as_str()));
    let found: BTreeSet<String> = named.map(|name| format!("/{name}")).chain([LOCAL.to_owned()]).collect();
    let is_cut = found.len() > DIFF_FOLDERS_MAX;
    Ok((found.into_iter().take(DIFF_FOLDERS_MAX).collect(), is_cut))
}

/// Compares everything below some folders.
pub async fn compare(edge: &Edge, pair: (SandboxId, SandboxId), paths: &[String]) -> Result<FoundDiffs, Fault> {
    let mut listed = ListedPair::default();
    for path in paths {
        let Some(entries_max) = listed.room() else { break };
        let ask = || WalkParams { path: path.clone(), depth: DIFF_DEPTH_MAX, entries_max };
        let (left, right) = tokio::try_join!(walk(edge, pair.0, ask()), walk(edge, pair.1, ask()))?;
        listed.add(path, left, right);
    }
    let ListedPair { left, right, truncated, exists, .. } = &listed;
    let mut differing = differing(left, right);
    let young = stream::iter(same_but_young(left, right)).map(|path| async move {
        let is_same = has_same_content(edge, pair, &path).await;
        (!is_same).then_some(path)
    });
    let changed: Vec<String> =
        young.buffer_unordered(DIFF_READS_AT_ONCE).filter_map(std::future::ready).collect().await;
    differing.extend(changed.iter().map(String::as_str));
    let truncated = *truncated || differing.len() > DIFF_FILES_MAX;
    let shown = differing.into_iter().take(DIFF_FILES_MAX);
    let files = shown.filter_map(|path| render(path, left.get(path), right.get(path))).collect();
    Ok(FoundDiffs { files, truncated, exists: *exists })
}

/// Lists a folder of a guest. `None` if there is none: one of the two may lack it.
async fn walk(edge: &Edge, id: SandboxId, ask: WalkParams) -> Result<Option<WalkResult>, Fault> {
    match edge.host.walk(id, ask).await {
        Ok(walked) => Ok(Some(walked)),
        Err(fault) if fault.kind == FaultKind::Missing && fault.code != Fault::no_sandbox().code => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// What two guests have in the same folders.
#[derive(Default)]
struct ListedPair {
    left: Listing,
    right: Listing,
    bytes: usize,
    truncated: bool,
    exists: bool,
}

impl ListedPair {
    /// Returns how many entries the next folder may have. `None` if nothing more is compared.
    fn room(&mut self) -> Option<u32> {
        let left = DIFF_ENTRIES_MAX.saturating_sub(self.left.len().max(self.right.len()));
        let room = u32::try_from(left).unwrap_or(u32::MAX).min(TREE_ENTRIES_MAX);
        self.truncated |= room == 0;
        (room > 0).then_some(room)
    }

    /// Adds a folder. If a list of it was cut, a file that only one list has may be in both guests.
    fn add(&mut self, folder: &str, left: Option<WalkResult>, right: Option<WalkResult>) {
        self.exists |= left.is_some() || right.is_some();
        let is_cut = [&left, &right].into_iter().flatten().any(|walked| walked.truncated);
        let (mut left, mut right) = (entries(folder, left), entries(folder, right));
        if is_cut {
            left.retain(|path, _| right.contains_key(path));
            right.retain(|path, _| left.contains_key(path));
        }
        let bytes = memory_of(&left) + memory_of(&right);
        if self.bytes + bytes > DIFF_BYTES_MAX {
            self.truncated = true;
            return;
        }
        self.bytes += bytes;
        self.truncated |= is_cut;
        self.left.append(&mut left);
        self.right.append(&mut right);
    }
}

/// Returns the entries of a folder by their whole paths.
fn entries(folder: &str, walked: Option<WalkResult>) -> Listing {
    let base = folder.trim_end_matches('/');
    let found = walked.into_iter().flat_map(|walked| walked.entries);
    let found = found.filter(|entry| entry.name.split('/').all(is_name)).map(|mut entry| {
        let name = std::mem::take(&mut entry.name);
        (format!("{base}/{name}"), entry)
    });
    found.filter(|(path, _)| !NAMES.contains(&path.as_str())).collect()
}

fn memory_of(listing: &Listing) -> usize {
    let one = |(path, entry): (&String, &FileEntry)| {
        size_of::<FileEntry>() + path.capacity() + entry.target.as_ref().map_or(0, String::capacity)
    };
    listing.iter().map(one).sum()
}

/// Checks a name from the untrusted guest.
fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

fn differing<'a>(left: &'a Listing, right: &'a Listing) -> BTreeSet<&'a str> {
    let paths = left.keys().chain(right.keys());
    paths.filter(|path| !looks_same(left.get(*path), right.get(*path))).map(String::as_str).collect()
}

/// Whether two listings show the same file. A folder's time and size change with its contents,
/// which are compared themselves.
fn looks_same(left: Option<&FileEntry>, right: Option<&FileEntry>) -> bool {
    let (Some(left), Some(right)) = (left, right) else { return false };
    let same = left.kind == right.kind && left.mode == right.mode && left.target == right.target;
    same && (left.kind == FileKind::Directory || (left.size == right.size && left.modified == right.modified))
}

/// Returns the small files that look the same and were written last. Two branches may have written
/// them in the same second.
fn same_but_young(left: &Listing, right: &Listing) -> Vec<String> {
    let small = |entry: &FileEntry| entry.kind == FileKind::File && (1..=DIFF_CONTENT_BYTES_MAX).contains(&entry.size);
    let mut same: Vec<(&String, i64)> = left
        .iter()
        .filter(|(path, entry)| small(entry) && looks_same(Some(*entry), right.get(*path)))
        .map(|(path, entry)| (path, entry.modified))
        .collect();
    same.sort_by_key(|(_, modified)| std::cmp::Reverse(*modified));
    same.into_iter().take(DIFF_CONTENTS_MAX).map(|(path, _)| path.clone()).collect()
}

/// Reads a file in both guests. A file that cannot be read counts as the same: it looked the same.
async fn has_same_content(edge: &Edge, (here, there): (SandboxId, SandboxId), path: &str) -> bool {
    match tokio::join!(content(edge, here, path), content(edge, there, path)) {
        (Ok(left), Ok(right)) => left == right,
        _ => true,
    }
}

/// Reads the start of a file.
pub(super) async fn content(edge: &Edge, id: SandboxId, path: &str) -> Result<Vec<u8>, Fault> {
    let (mut file, mut read) = (edge.host.read_file(id, path).await?, Vec::new());
    while let Some(piece) = file.body.next().await {
        read.extend_from_slice(&piece?);
        if read.len() as u64 > DIFF_CONTENT_BYTES_MAX {
            read.truncate(DIFF_CONTENT_BYTES_MAX as usize);
            break;
        }
    }
    Ok(read)
}

fn render(path: &str, left: Option<&FileEntry>, right: Option<&FileEntry>) -> Option<FileDiff> {
    let change = match (left, right) {
        (None, _) => "added",
        (_, None) => "removed",
        _ => "changed",
    };
    let mode = match right.or(left)?.kind {
        FileKind::File => "f",
        FileKind::Directory => "d",
        FileKind::Symlink => "l",
        FileKind::Other => "o",
    };
    let size = |entry: Option<&FileEntry>| entry.map(|entry| entry.size);
    let path = path.to_owned();
    Some(FileDiff { path, change: change.to_owned(), mode: mode.to_owned(), size: size(left), with_size: size(right) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: FileKind, size: u64, modified: i64) -> FileEntry {
        FileEntry { name: String::new(), kind, size, mode: 0o644, modified, target: None }
    }

    fn listing(files: &[(&str, FileKind, u64, i64)]) -> Listing {
        let entries = files.iter().map(|(path, kind, size, at)| ((*path).to_owned(), entry(*kind, *size, *at)));
        entries.collect()
    }

    #[test]
    fn files_differ_by_what_a_listing_shows_and_folders_only_by_kind() {
        use FileKind::{Directory, File};
        let left = listing(&[("/a", File, 1, 1), ("/b", File, 1, 1), ("/d", Directory, 1, 1), ("/gone", File, 1, 1)]);
        let right = listing(&[("/a", File, 1, 1), ("/b", File, 1, 2), ("/d", Directory, 9, 9), ("/new", File, 1, 1)]);
        let found = differing(&left, &right);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["/b", "/gone", "/new"]);
        let shown = |path: &str| render(path, left.get(path), right.get(path)).unwrap();
        assert_eq!((shown("/gone").change.as_str(), shown("/gone").with_size), ("removed", None));
        assert_eq!((shown("/new").change.as_str(), shown("/new").size), ("added", None));
        assert_eq!((shown("/b").change.as_str(), shown("/b").size), ("changed", Some(1)));
        let turned = listing(&[("/a", Directory, 1, 1)]);
        assert!(differing(&left, &turned).contains("/a"));
    }

    fn walked(names: &[&str], truncated: bool) -> Option<WalkResult> {
        let entries = names.iter().map(|name| FileEntry { name: (*name).to_owned(), ..entry(FileKind::File, 1, 1) });
        Some(WalkResult { entries: entries.collect(), truncated })
    }

    #[test]
    fn a_list_that_was_cut_tells_nothing_of_what_it_lacks() {
        let mut listed = ListedPair::default();
        listed.add("/a/", walked(&["0", "1", "2"], true), walked(&["1", "2", "3"], true));
        assert_eq!((differing(&listed.left, &listed.right).len(), listed.truncated), (0, true));
        let mut listed = ListedPair::default();
        listed.add("/a", walked(&["1"], false), None);
        listed.add("/b", None, None);
        listed.add("/etc", walked(&["hosts", "../x", "fstab"], false), walked(&["fstab"], false));
        assert_eq!(differing(&listed.left, &listed.right).into_iter().collect::<Vec<_>>(), ["/a/1"]);
        assert_eq!((listed.truncated, listed.exists), (false, true));
    }

    #[test]
    fn long_paths_end_a_comparison_before_they_fill_the_memory() {
        let (mut listed, long) = (ListedPair::default(), "x".repeat(DIFF_BYTES_MAX / 3));
        listed.add("/a", walked(&[&long], false), walked(&[&long], false));
        assert!(!listed.truncated);
        listed.add("/b", walked(&[&long], false), walked(&[&long], false));
        assert_eq!((listed.left.len(), listed.truncated), (1, true));
    }

    #[test]
    fn young_small_files_are_read() {
        let files: Vec<_> = (0..DIFF_CONTENTS_MAX + 10).map(|at| format!("/f{at}")).collect();
        let mut both: Vec<_> =
            files.iter().enumerate().map(|(at, path)| (path.as_str(), FileKind::File, 1, at as i64)).collect();
        both.push(("/large", FileKind::File, DIFF_CONTENT_BYTES_MAX + 1, i64::MAX));
        both.push(("/empty", FileKind::File, 0, i64::MAX));
        let both = listing(&both);
        let young = same_but_young(&both, &both);
        assert_eq!((young.len(), young[0].as_str()), (DIFF_CONTENTS_MAX, files[files.len() - 1].as_str()));
        assert!(!young.iter().any(|path| path == "/large" || path == "/empty"));
    }
}
