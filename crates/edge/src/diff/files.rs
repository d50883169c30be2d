//! Compares the files of two guests: by what a listing shows, and young small files by content.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{FileEntry, FileKind, WalkParams};
use pandastack_wire_public::FileDiff;

use crate::{
    Edge,
    limits::{
        DIFF_CONTENT_BYTES_MAX, DIFF_CONTENTS_MAX, DIFF_DEPTH_MAX, DIFF_ENTRIES_MAX, DIFF_FILES_MAX,
        DIFF_READS_AT_ONCE, TREE_ENTRIES_MAX,
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
}

/// The entries of a guest, by path.
type Listing = BTreeMap<String, FileEntry>;

/// Returns the folders that are compared by default: those of either root.
pub async fn folders(edge: &Edge, (here, there): (SandboxId, SandboxId)) -> Result<Vec<String>, Fault> {
    let (left, right) = tokio::try_join!(edge.host.list_dir(here, "/"), edge.host.list_dir(there, "/"))?;
    let names = left.into_iter().chain(right).filter(|entry| entry.kind == FileKind::Directory);
    let named = names.map(|entry| entry.name).filter(|name| is_name(name) && !SKIPPED.contains(&name.as_str()));
    let found: BTreeSet<String> = named.map(|name| format!("/{name}")).chain([LOCAL.to_owned()]).collect();
    Ok(found.into_iter().collect())
}

/// Compares everything below some folders.
pub async fn compare(
    edge: &Edge,
    (here, there): (SandboxId, SandboxId),
    paths: &[String],
) -> Result<FoundDiffs, Fault> {
    let ((left, left_cut), (right, right_cut)) = tokio::try_join!(list(edge, here, paths), list(edge, there, paths))?;
    let mut differing = differing(&left, &right);
    for path in same_but_young(&left, &right, &differing) {
        differing.insert(path);
    }
    // Among those, only files whose contents were read and differ stay.
    let unsure: Vec<String> =
        differing.iter().filter(|path| looks_same(left.get(*path), right.get(*path))).cloned().collect();
    let same = stream::iter(unsure)
        .map(|path| async move {
            let is_same = has_same_content(edge, (here, there), &path).await;
            (path, is_same)
        })
        .buffer_unordered(DIFF_READS_AT_ONCE);
    for (path, is_same) in same.collect::<Vec<_>>().await {
        if is_same {
            differing.remove(&path);
        }
    }
    let truncated = left_cut || right_cut || differing.len() > DIFF_FILES_MAX;
    let files = differing.into_iter().take(DIFF_FILES_MAX).filter_map(|path| {
        let (left, right) = (left.get(&path), right.get(&path));
        render(path, left, right)
    });
    Ok(FoundDiffs { files: files.collect(), truncated })
}

/// Lists some folders of a guest. Returns also whether the listing is incomplete.
async fn list(edge: &Edge, id: SandboxId, paths: &[String]) -> Result<(Listing, bool), Fault> {
    let (mut found, mut cut) = (Listing::new(), false);
    for path in paths {
        let left = u32::try_from(DIFF_ENTRIES_MAX.saturating_sub(found.len())).unwrap_or(u32::MAX);
        if left == 0 {
            return Ok((found, true));
        }
        let entries_max = left.min(TREE_ENTRIES_MAX);
        let walked = edge.host.walk(id, WalkParams { path: path.clone(), depth: DIFF_DEPTH_MAX, entries_max }).await;
        let walked = match walked {
            Ok(walked) => walked,
            // One of the two may lack the folder.
            Err(fault) if fault.kind == FaultKind::Missing && fault.code != Fault::no_sandbox().code => continue,
            Err(fault) => return Err(fault),
        };
        cut |= walked.truncated;
        let base = path.trim_end_matches('/');
        for entry in walked.entries.into_iter().take(entries_max as usize) {
            let at = format!("{base}/{}", entry.name);
            if entry.name.split('/').all(is_name) && !NAMES.contains(&at.as_str()) {
                found.insert(at, entry);
            }
        }
    }
    Ok((found, cut))
}

/// Checks a name from the untrusted guest.
fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

fn differing(left: &Listing, right: &Listing) -> BTreeSet<String> {
    let paths = left.keys().chain(right.keys());
    paths.filter(|path| !looks_same(left.get(*path), right.get(*path))).cloned().collect()
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
fn same_but_young(left: &Listing, right: &Listing, differing: &BTreeSet<String>) -> Vec<String> {
    let small = |entry: &FileEntry| entry.kind == FileKind::File && (1..=DIFF_CONTENT_BYTES_MAX).contains(&entry.size);
    let mut same: Vec<(&String, i64)> = left
        .iter()
        .filter(|(path, entry)| small(entry) && !differing.contains(*path) && right.contains_key(*path))
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

fn render(path: String, left: Option<&FileEntry>, right: Option<&FileEntry>) -> Option<FileDiff> {
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
        assert_eq!(found.iter().collect::<Vec<_>>(), ["/b", "/gone", "/new"]);
        let shown = |path: &str| render(path.to_owned(), left.get(path), right.get(path)).unwrap();
        assert_eq!((shown("/gone").change.as_str(), shown("/gone").with_size), ("removed", None));
        assert_eq!((shown("/new").change.as_str(), shown("/new").size), ("added", None));
        assert_eq!((shown("/b").change.as_str(), shown("/b").size), ("changed", Some(1)));
        let turned = listing(&[("/a", Directory, 1, 1)]);
        assert!(differing(&left, &turned).contains("/a"));
    }

    #[test]
    fn young_small_files_are_read() {
        let files: Vec<_> = (0..DIFF_CONTENTS_MAX + 10).map(|at| format!("/f{at}")).collect();
        let mut both: Vec<_> =
            files.iter().enumerate().map(|(at, path)| (path.as_str(), FileKind::File, 1, at as i64)).collect();
        both.push(("/large", FileKind::File, DIFF_CONTENT_BYTES_MAX + 1, i64::MAX));
        both.push(("/empty", FileKind::File, 0, i64::MAX));
        let both = listing(&both);
        let young = same_but_young(&both, &both, &BTreeSet::new());
        assert_eq!((young.len(), young[0].as_str()), (DIFF_CONTENTS_MAX, files[files.len() - 1].as_str()));
        assert!(!young.iter().any(|path| path == "/large" || path == "/empty"));
    }
}
