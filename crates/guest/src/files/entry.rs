//! Describes files in the protocol's terms.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use pandastack_wire_guest::{DirEntry, DirEntryKind};

/// Permission bits of a mode.
pub(super) const PERMISSIONS: u32 = 0o7777;

/// Describes a path without following links.
pub(super) fn of(path: &Path) -> io::Result<DirEntry> {
    Ok(describe(path, &fs::symlink_metadata(path)?))
}

/// Describes a file from its metadata. Bytes of a name that are not UTF-8 are replaced.
pub(super) fn describe(path: &Path, meta: &Metadata) -> DirEntry {
    let kind = match meta.file_type() {
        kind if kind.is_file() => DirEntryKind::File,
        kind if kind.is_dir() => DirEntryKind::Directory,
        kind if kind.is_symlink() => DirEntryKind::Symlink,
        _ => DirEntryKind::Other,
    };
    let target = (kind == DirEntryKind::Symlink).then(|| fs::read_link(path).ok()).flatten();
    DirEntry {
        name: path.file_name().map_or_else(|| "/".to_owned(), |name| name.to_string_lossy().into_owned()),
        kind,
        size: meta.len(),
        mode: meta.mode() & PERMISSIONS,
        modified: meta.mtime(),
        target: target.map(|target| target.to_string_lossy().into_owned()),
    }
}
