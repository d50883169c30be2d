//! Describes files in the protocol's terms.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use pandastack_wire_guest::{Entry, EntryKind};

/// Permission bits of a mode.
pub(super) const PERMISSIONS: u32 = 0o7777;

/// Describes a path without following links.
pub(super) fn of(path: &Path) -> io::Result<Entry> {
    Ok(describe(path, &fs::symlink_metadata(path)?))
}

/// Describes a file from its metadata. Bytes of a name that are not UTF-8 are replaced.
pub(super) fn describe(path: &Path, meta: &Metadata) -> Entry {
    let kind = match meta.file_type() {
        kind if kind.is_file() => EntryKind::File,
        kind if kind.is_dir() => EntryKind::Directory,
        kind if kind.is_symlink() => EntryKind::Symlink,
        _ => EntryKind::Other,
    };
    let target = (kind == EntryKind::Symlink).then(|| fs::read_link(path).ok()).flatten();
    Entry {
        name: path.file_name().map_or_else(|| "/".to_owned(), |name| name.to_string_lossy().into_owned()),
        kind,
        size: meta.len(),
        mode: meta.mode() & PERMISSIONS,
        modified: meta.mtime(),
        target: target.map(|target| target.to_string_lossy().into_owned()),
    }
}
