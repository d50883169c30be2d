//! The files of an image in memory, layer over layer: names, kinds and links, never contents. Links
//! and `..` are resolved here and never lead outside of the image. A whiteout hides only files of
//! lower layers, so each name records its layer. Full paths are not stored: a link to a deep folder
//! would make each of them long.

use std::collections::{BTreeMap, HashMap};

use crate::limits::{IMAGE_ENTRIES_MAX, IMAGE_LEVELS_MAX, IMAGE_LINKS_MAX, IMAGE_NAME_BYTES_MAX, IMAGE_PATH_BYTES_MAX};

/// Prefix of a name that hides another, and the name that hides the contents of a folder.
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Longest name of a Linux file system.
const NAME_BYTES_MAX: usize = 255;

/// Owner, mode and time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAttributes {
    pub mode: u32,
    pub owner: u64,
    pub group: u64,
    pub changed_at: u64,
}

const MADE_FOLDER: FileAttributes = FileAttributes { mode: 0o755, owner: 0, group: 0, changed_at: 0 };

/// Position of a file's contents: the numbers of a layer and of an entry in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentPosition {
    pub layer: usize,
    pub entry: usize,
}

/// The content of one entry of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryContent {
    Folder,
    File {
        spot: ContentPosition,
        bytes: u64,
    },
    Link(Vec<u8>),
    /// A hard link to the file at this path.
    Same(Vec<u8>),
    Pipe,
}

/// The final content of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathContent {
    Folder,
    File {
        spot: ContentPosition,
        bytes: u64,
    },
    Link(Vec<u8>),
    /// A hard link to an earlier entry of the listing.
    Same(usize),
    Pipe,
}

/// One name in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPath {
    /// The entry of its parent folder. `None` if that is the root.
    folder: Option<usize>,
    pub name: Vec<u8>,
    pub item: PathContent,
    pub marks: FileAttributes,
}

/// All names of a tree, folders before their contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeListing {
    entries: Vec<ListedPath>,
}

impl TreeListing {
    pub fn entries(&self) -> &[ListedPath] {
        &self.entries
    }

    /// The full path of an entry.
    pub fn path(&self, entry: usize) -> Vec<u8> {
        let (mut names, mut next) = (Vec::new(), Some(entry));
        while let Some(ListedPath { folder, name, .. }) = next.map(|entry| &self.entries[entry]) {
            names.push(name.as_slice());
            next = *folder;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// Bytes of all files together.
    pub fn bytes(&self) -> u64 {
        let of = |entry: &ListedPath| if let PathContent::File { bytes, .. } = entry.item { bytes } else { 0 };
        self.entries.iter().map(of).fold(0, u64::saturating_add)
    }
}

#[derive(Clone, Debug)]
enum NodeKind {
    Folder(Folder),
    File { spot: ContentPosition, bytes: u64 },
    Link(Vec<u8>),
    Pipe,
}

#[derive(Clone, Debug, Default)]
struct Folder {
    names: BTreeMap<Vec<u8>, Name>,
    /// Length of its full path. A folder has only one.
    path_bytes: usize,
    /// The last layer in which the contents from lower layers were hidden.
    fresh_in: usize,
}

#[derive(Clone, Copy, Debug)]
struct Name {
    node: usize,
    layer: usize,
}

#[derive(Clone, Debug)]
struct Node {
    kind: NodeKind,
    marks: FileAttributes,
}

/// All files of an image.
#[derive(Debug)]
pub struct ImageTree {
    nodes: Vec<Node>,
    name_bytes: usize,
    layer: usize,
}

impl Default for ImageTree {
    /// A tree with only its root.
    fn default() -> Self {
        let root = Node { kind: NodeKind::Folder(Folder::default()), marks: MADE_FOLDER };
        Self { nodes: vec![root], name_bytes: 0, layer: 0 }
    }
}

impl ImageTree {
    /// Starts the next layer.
    pub fn next_layer(&mut self) {
        self.layer += 1;
    }

    /// Adds one entry of a layer.
    pub fn add_entry(&mut self, path: &[u8], brought: EntryContent, marks: FileAttributes) -> Result<(), String> {
        if path.len() > IMAGE_PATH_BYTES_MAX {
            return Err(too_long(path));
        }
        let Some((folder, name)) = split(path) else {
            // The root itself.
            if brought == EntryContent::Folder {
                self.nodes[0].marks = marks;
            }
            return Ok(());
        };
        if name == b".." || name.len() > NAME_BYTES_MAX || path.contains(&0) {
            return Err(format!("{} is not a valid path", shown(path)));
        }
        if name == OPAQUE {
            if let Some(folder) = self.folder(folder, path, MissingFolder::Stays)? {
                self.keep_fresh(folder);
            }
            return Ok(());
        }
        if let Some(gone) = name.strip_prefix(WHITEOUT) {
            return self.take_away(folder, gone, path);
        }
        let kind = match brought {
            EntryContent::Folder => NodeKind::Folder(Folder::default()),
            EntryContent::File { spot, bytes } => NodeKind::File { spot, bytes },
            EntryContent::Link(target) => NodeKind::Link(target),
            EntryContent::Pipe => NodeKind::Pipe,
            EntryContent::Same(target) => {
                let node = self.file_at(&target, path)?;
                let folder = self.folder(folder, path, MissingFolder::Made)?.unwrap_or(0);
                return self.put(folder, name, node);
            }
        };
        let folder = self.folder(folder, path, MissingFolder::Made)?.unwrap_or(0);
        let node = match (self.child(folder, name), &kind) {
            // A folder over a folder keeps its contents.
            (Some(Name { node, .. }), NodeKind::Folder(_)) if matches!(self.nodes[node].kind, NodeKind::Folder(_)) => {
                self.nodes[node].marks = marks;
                node
            }
            _ => self.add(Node { kind, marks })?,
        };
        self.put(folder, name, node)
    }

    /// Makes a folder and its parents where they are missing.
    pub fn ensure_folder(&mut self, path: &[u8]) -> Result<(), String> {
        self.folder(path, path, MissingFolder::Made).map(drop)
    }

    /// Lists everything.
    pub fn list(&self) -> TreeListing {
        let mut listing = TreeListing::default();
        self.gather(0, None, &mut HashMap::new(), &mut listing.entries);
        listing
    }

    /// Adds the contents of a folder. The depth is bounded by the limit on levels.
    fn gather(
        &self,
        node: usize,
        folder: Option<usize>,
        first: &mut HashMap<usize, usize>,
        entries: &mut Vec<ListedPath>,
    ) {
        let NodeKind::Folder(Folder { names, .. }) = &self.nodes[node].kind else { return };
        for (name, Name { node, .. }) in names {
            let Node { kind, marks } = &self.nodes[*node];
            let number = entries.len();
            let item = match (first.get(node), kind) {
                (_, NodeKind::Folder(_)) => PathContent::Folder,
                (Some(first), _) => PathContent::Same(*first),
                (None, NodeKind::File { spot, bytes }) => PathContent::File { spot: *spot, bytes: *bytes },
                (None, NodeKind::Link(target)) => PathContent::Link(target.clone()),
                (None, NodeKind::Pipe) => PathContent::Pipe,
            };
            first.entry(*node).or_insert(number);
            entries.push(ListedPath { folder, name: name.clone(), item, marks: *marks });
            self.gather(*node, Some(number), first, entries);
        }
    }

    /// Reports whether a node is a folder.
    pub fn is_folder(&self, node: usize) -> bool {
        matches!(self.nodes[node].kind, NodeKind::Folder(_))
    }

    /// The names in a folder and their nodes. Links are not followed.
    pub fn names(&self, folder: usize) -> impl Iterator<Item = (&[u8], usize)> {
        let names = match &self.nodes[folder].kind {
            NodeKind::Folder(Folder { names, .. }) => Some(names),
            NodeKind::File { .. } | NodeKind::Link(_) | NodeKind::Pipe => None,
        };
        names.into_iter().flatten().map(|(name, at)| (name.as_slice(), at.node))
    }

    /// Resolves a path from a trail of folders. Follows links, but never out of the image. Returns
    /// the trail to the target, or `None`.
    pub fn walk(&self, mut trail: Vec<usize>, path: &[u8]) -> Result<Option<Vec<usize>>, String> {
        let mut links = 0;
        let mut ahead: Vec<Vec<u8>> = parts(path).rev().map(<[u8]>::to_vec).collect();
        while let Some(name) = ahead.pop() {
            if name == b".." {
                trail.truncate(trail.len().saturating_sub(1).max(1));
                continue;
            }
            let here = *trail.last().unwrap_or(&0);
            let Some(Name { node, .. }) = self.child(here, &name) else { return Ok(None) };
            match &self.nodes[node].kind {
                NodeKind::Link(target) => {
                    links += 1;
                    if links > IMAGE_LINKS_MAX {
                        return Err(too_many_links(path));
                    }
                    if target.starts_with(b"/") {
                        trail.truncate(1);
                    }
                    ahead.extend(parts(target).rev().map(<[u8]>::to_vec));
                }
                NodeKind::Folder(_) => trail.push(node),
                NodeKind::File { .. } | NodeKind::Pipe if ahead.is_empty() => trail.push(node),
                NodeKind::File { .. } | NodeKind::Pipe => return Ok(None),
            }
        }
        Ok(Some(trail))
    }

    /// Copies a node of another tree, with everything below it, under a name in a folder of this
    /// tree.
    pub fn copy(&mut self, from: (&Self, usize), to: (usize, &[u8]), copied: &mut CopiedNodes) -> Result<(), String> {
        let ((tree, node), (folder, name)) = (from, to);
        copied.left =
            copied.left.checked_sub(1).ok_or("the sources contain too many files; name each file only once")?;
        let Node { kind, marks } = &tree.nodes[node];
        let NodeKind::Folder(_) = kind else {
            // Hard links to one file stay hard links.
            let own = match copied.nodes.get(&node) {
                Some(own) => *own,
                None => self.add(Node { kind: kind.clone(), marks: *marks })?,
            };
            copied.nodes.insert(node, own);
            return self.put(folder, name, own);
        };
        let own = match self.child(folder, name) {
            Some(Name { node, .. }) if self.is_folder(node) => node,
            _ => self.add(Node { kind: NodeKind::Folder(Folder::default()), marks: *marks })?,
        };
        self.nodes[own].marks = *marks;
        self.put(folder, name, own)?;
        for (name, inner) in tree.names(node) {
            self.copy((tree, inner), (own, name), copied)?;
        }
        Ok(())
    }

    fn add(&mut self, node: Node) -> Result<usize, String> {
        if self.nodes.len() >= IMAGE_ENTRIES_MAX {
            return Err(format!("more than {IMAGE_ENTRIES_MAX} files"));
        }
        if let NodeKind::Link(target) = &node.kind {
            self.name_bytes += target.len();
        }
        self.nodes.push(node);
        Ok(self.nodes.len() - 1)
    }

    fn put(&mut self, folder: usize, name: &[u8], node: usize) -> Result<(), String> {
        let path_bytes = match &self.nodes[folder].kind {
            NodeKind::Folder(Folder { path_bytes: 0, .. }) => name.len(),
            NodeKind::Folder(Folder { path_bytes, .. }) => path_bytes + 1 + name.len(),
            NodeKind::File { .. } | NodeKind::Link(_) | NodeKind::Pipe => return Ok(()),
        };
        if path_bytes > IMAGE_PATH_BYTES_MAX {
            return Err(too_long(name));
        }
        self.name_bytes += name.len();
        if self.name_bytes > IMAGE_NAME_BYTES_MAX {
            return Err(format!("more than {IMAGE_NAME_BYTES_MAX} bytes of names"));
        }
        if let NodeKind::Folder(below) = &mut self.nodes[node].kind {
            below.path_bytes = path_bytes;
        }
        let layer = self.layer;
        if let NodeKind::Folder(Folder { names, .. }) = &mut self.nodes[folder].kind {
            names.insert(name.to_vec(), Name { node, layer });
        }
        Ok(())
    }

    fn child(&self, folder: usize, name: &[u8]) -> Option<Name> {
        match &self.nodes[folder].kind {
            NodeKind::Folder(Folder { names, .. }) => names.get(name).copied(),
            NodeKind::File { .. } | NodeKind::Link(_) | NodeKind::Pipe => None,
        }
    }

    fn take_away(&mut self, folder: &[u8], name: &[u8], path: &[u8]) -> Result<(), String> {
        if name.is_empty() || name == b"." || name == b".." {
            return Err(format!("{} is not a valid path", shown(path)));
        }
        // Names of this form belong to tools and hide no file.
        if name.starts_with(WHITEOUT) {
            return Ok(());
        }
        let Some(folder) = self.folder(folder, path, MissingFolder::Stays)? else { return Ok(()) };
        let Some(Name { node, layer }) = self.child(folder, name) else { return Ok(()) };
        let fresh = self.keep_fresh(node) || layer == self.layer;
        if !fresh && let NodeKind::Folder(Folder { names, .. }) = &mut self.nodes[folder].kind {
            names.remove(name);
        }
        Ok(())
    }

    /// Removes the names in a folder that this layer did not add. Returns whether any are left.
    fn keep_fresh(&mut self, node: usize) -> bool {
        let layer = self.layer;
        let NodeKind::Folder(folder) = &mut self.nodes[node].kind else { return false };
        // Already done in this layer. Many whiteouts must not each walk a large folder.
        if folder.fresh_in == layer {
            return !folder.names.is_empty();
        }
        folder.fresh_in = layer;
        let mut names = std::mem::take(&mut folder.names);
        names.retain(|_, at| self.keep_fresh(at.node) || at.layer == layer);
        let left = !names.is_empty();
        if let NodeKind::Folder(folder) = &mut self.nodes[node].kind {
            folder.names = names;
        }
        left
    }

    /// Finds the target of a hard link.
    fn file_at(&mut self, target: &[u8], path: &[u8]) -> Result<usize, String> {
        let none = || format!("the hard link {} refers to a missing file", shown(path));
        let (folder, name) = split(target).ok_or_else(none)?;
        let folder = self.folder(folder, path, MissingFolder::Stays)?.ok_or_else(none)?;
        let Name { node, .. } = self.child(folder, name).ok_or_else(none)?;
        if matches!(self.nodes[node].kind, NodeKind::Folder(_)) { Err(none()) } else { Ok(node) }
    }

    /// Resolves a path to a folder. Follows links, but never out of the image.
    fn folder(&mut self, walk: &[u8], path: &[u8], missing: MissingFolder) -> Result<Option<usize>, String> {
        let mut links = 0;
        // `trail`: the folders from the root to here. `ahead`: the names that are left, the next
        // one last.
        let mut trail = vec![0];
        let mut ahead: Vec<Vec<u8>> = parts(walk).rev().map(<[u8]>::to_vec).collect();
        while let Some(name) = ahead.pop() {
            let here = *trail.last().unwrap_or(&0);
            if name == b".." {
                trail.truncate(trail.len().saturating_sub(1).max(1));
                continue;
            }
            let found = self.child(here, &name).map(|found| found.node);
            let next = match (found, missing) {
                (Some(node), _) => node,
                (None, MissingFolder::Stays) => return Ok(None),
                (None, MissingFolder::Made) if name.len() > NAME_BYTES_MAX => {
                    return Err(format!("{} is not a valid path", shown(path)));
                }
                (None, MissingFolder::Made) => {
                    let node = self.add(Node { kind: NodeKind::Folder(Folder::default()), marks: MADE_FOLDER })?;
                    self.put(here, &name, node)?;
                    node
                }
            };
            match &self.nodes[next].kind {
                NodeKind::Folder(_) => trail.push(next),
                NodeKind::Link(target) => {
                    links += 1;
                    if links > IMAGE_LINKS_MAX {
                        return Err(too_many_links(path));
                    }
                    if target.starts_with(b"/") {
                        trail.truncate(1);
                    }
                    ahead.extend(parts(target).rev().map(<[u8]>::to_vec));
                }
                NodeKind::File { .. } | NodeKind::Pipe if missing == MissingFolder::Stays => return Ok(None),
                NodeKind::File { .. } | NodeKind::Pipe => {
                    return Err(format!("{} contains a part that is not a directory", shown(path)));
                }
            }
            if trail.len() > IMAGE_LEVELS_MAX || ahead.len() > 16 * IMAGE_LEVELS_MAX {
                return Err(format!("{} is nested deeper than {IMAGE_LEVELS_MAX} directories", shown(path)));
            }
        }
        Ok(trail.last().copied())
    }
}

/// The nodes copied from one tree into another, and the number that may still be copied.
#[derive(Debug)]
pub struct CopiedNodes {
    nodes: HashMap<usize, usize>,
    left: usize,
}

impl CopiedNodes {
    pub fn at_most(count: usize) -> Self {
        Self { nodes: HashMap::new(), left: count }
    }
}

fn too_long(path: &[u8]) -> String {
    format!("{}: the path is longer than {IMAGE_PATH_BYTES_MAX} bytes, the limit of Linux", shown(path))
}

fn too_many_links(path: &[u8]) -> String {
    format!("{} follows more than {IMAGE_LINKS_MAX} symbolic links", shown(path))
}

/// Whether a missing folder is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MissingFolder {
    Made,
    Stays,
}

pub fn parts(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

/// Splits off the last name of a path. `None` for the root.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let name = parts(path).next_back()?;
    let end = path.windows(name.len()).rposition(|part| part == name)?;
    Some((&path[..end], name))
}

/// Shows a path in a message, shortened.
pub fn shown(path: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(path).chars().take(200).collect();
    format!("{text:?}")
}

#[cfg(test)]
mod tests;
