//! Lists directories and describes paths.

use axum::{Json, extract::State, http::Uri};
use pandastack_door::http::{Answer, flag, query_value};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{FileEntry, FileKind, WalkParams, WalkResult};
use pandastack_wire_public::{DirListing, Entry, checked_path};

use super::path;
use crate::{Edge, access::ReachableSandbox, limits::TREE_ENTRIES_MAX};

/// Lists a directory by name; the default is the root. With `recursive=1` or a `depth` it also
/// lists the levels below, each directory before its contents.
pub async fn list(
    State(edge): State<Edge>,
    ReachableSandbox(id): ReachableSandbox,
    uri: Uri,
) -> Answer<Json<DirListing>> {
    let asked = query_value(&uri, "path").filter(|path| !path.is_empty());
    let path = checked_path(Some(asked.unwrap_or_else(|| "/".to_owned())))?;
    if let Some(depth) = depth(&uri)? {
        let entries_max = TREE_ENTRIES_MAX;
        let WalkResult { entries, truncated } =
            edge.host.walk(id, WalkParams { path: path.clone(), depth, entries_max }).await?;
        let inside = entries.into_iter().filter(|entry| entry.name.split('/').all(is_name));
        let entries = inside.map(|entry| within(&path, entry)).collect();
        return Ok(Json(DirListing { path, entries, truncated }));
    }
    let found = edge.host.list_dir(id, &path).await?;
    let mut entries: Vec<_> =
        found.into_iter().filter(|entry| is_name(&entry.name)).map(|e| within(&path, e)).collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Json(DirListing { path, entries, truncated: false }))
}

/// Describes one path.
pub async fn stat(State(edge): State<Edge>, ReachableSandbox(id): ReachableSandbox, uri: Uri) -> Answer<Json<Entry>> {
    let path = path(&uri)?;
    let found = edge.host.stat(id, &path).await?;
    // The name comes from the caller's own path, so the guest cannot forge it.
    let name = path.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("/").to_owned();
    Ok(Json(render(name, path, found)))
}

/// The number of levels to list; `None` for a plain listing.
fn depth(uri: &Uri) -> Result<Option<u32>, Fault> {
    match query_value(uri, "depth") {
        None if flag(uri, "recursive") => Ok(Some(u32::MAX)),
        None => Ok(None),
        Some(text) => match text.parse() {
            Ok(depth) if depth > 0 => Ok(Some(depth)),
            _ => Err(Fault::new(FaultKind::Caller, "fs.bad_depth", "depth must be 1 or more")),
        },
    }
}

/// Checks a name from the untrusted guest. Clients join these names to local paths.
fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

fn within(directory: &str, entry: FileEntry) -> Entry {
    let path = format!("{}/{}", directory.trim_end_matches('/'), entry.name);
    let name = entry.name.rsplit('/').next().unwrap_or_default().to_owned();
    render(name, path, entry)
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
