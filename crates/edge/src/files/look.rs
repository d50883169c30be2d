//! Lists directories and describes paths.

use axum::{Json, extract::State, http::Uri};
use pandastack_wire_fleet::{FileEntry, FileKind};
use pandastack_wire_public::{
    DirListing, Entry, checked_path,
    http::{Answer, query_value},
};

use super::path;
use crate::{Edge, access::Admitted};

/// Lists a directory, by name; the root if none is named.
pub async fn list(State(edge): State<Edge>, Admitted(id): Admitted, uri: Uri) -> Answer<Json<DirListing>> {
    let asked = query_value(&uri, "path").filter(|path| !path.is_empty());
    let path = checked_path(Some(asked.unwrap_or_else(|| "/".to_owned())))?;
    let found = edge.host.list_dir(id, &path).await?;
    let mut entries: Vec<_> =
        found.into_iter().filter(|entry| is_name(&entry.name)).map(|e| within(&path, e)).collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Json(DirListing { path, entries }))
}

/// Describes one path.
pub async fn stat(State(edge): State<Edge>, Admitted(id): Admitted, uri: Uri) -> Answer<Json<Entry>> {
    let path = path(&uri)?;
    let found = edge.host.stat(id, &path).await?;
    // The caller's own path gives the name, so the guest cannot make one up.
    let name = path.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("/").to_owned();
    Ok(Json(render(name, path, found)))
}

/// Names come from an untrusted guest; clients join them to paths on their own disks.
fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

fn within(directory: &str, entry: FileEntry) -> Entry {
    let path = format!("{}/{}", directory.trim_end_matches('/'), entry.name);
    render(entry.name.clone(), path, entry)
}

fn render(name: String, path: String, entry: FileEntry) -> Entry {
    let FileEntry { name: _, kind, size, mode, modified, target } = entry;
    let letter = match kind {
        FileKind::File => "f",
        FileKind::Directory => "d",
        FileKind::Symlink => "l",
        FileKind::Other => "o",
    };
    Entry {
        name,
        path,
        is_dir: kind == FileKind::Directory,
        size,
        mode: letter.to_owned(),
        permissions: format!("{:04o}", mode & 0o7777),
        mtime: modified,
        target,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_leave_their_directory_are_dropped() {
        for bad in ["", ".", "..", "a/b", "/", "a\0"] {
            assert!(!is_name(bad), "{bad:?}");
        }
        for good in ["a", ".profile", "...", "é \n"] {
            assert!(is_name(good), "{good:?}");
        }
    }
}
