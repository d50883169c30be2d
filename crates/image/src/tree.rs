//! The files of an image, layer over layer, in memory: names, kinds and links, never contents. Every path is walked here, so a link or a
//! `..` leads around inside of the image and nowhere else, and what is left in the end has one plain path each.
//!
//! Whiteouts only take away what lower layers brought, wherever in a layer they stand; so every name knows the layer that brought it.

use std::collections::BTreeMap;

use crate::limits::{IMAGE_ENTRIES_MAX, IMAGE_LEVELS_MAX, IMAGE_LINKS_MAX, IMAGE_NAME_BYTES_MAX};

/// What a name that takes another away begins with, and the one that takes all of a folder away.
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Longest name that a Linux file system has.
const NAME_BYTES_MAX: usize = 255;

/// Whose a file is and what may be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    pub mode: u32,
    pub owner: u64,
    pub group: u64,
    pub changed_at: u64,
}

const MADE_FOLDER: Marks = Marks { mode: 0o755, owner: 0, group: 0, changed_at: 0 };

/// Where the contents of a file are: the number of a layer and of an entry in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot {
    pub layer: usize,
    pub entry: usize,
}

/// What one entry of a layer brings, and what is at a path in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Folder,
    File {
        spot: Spot,
        bytes: u64,
    },
    Link(Vec<u8>),
    /// Another name of a file that is there.
    Same(Vec<u8>),
    Pipe,
}

#[derive(Clone, Debug)]
enum Kind {
    Folder(BTreeMap<Vec<u8>, Name>),
    File { spot: Spot, bytes: u64 },
    Link(Vec<u8>),
    Pipe,
}

#[derive(Clone, Copy, Debug)]
struct Name {
    node: usize,
    layer: usize,
}

#[derive(Clone, Debug)]
struct Node {
    kind: Kind,
    marks: Marks,
}

/// All files of an image.
#[derive(Debug)]
pub struct Tree {
    nodes: Vec<Node>,
    name_bytes: usize,
    layer: usize,
}

impl Tree {
    pub fn new() -> Self {
        let root = Node { kind: Kind::Folder(BTreeMap::new()), marks: MADE_FOLDER };
        Self { nodes: vec![root], name_bytes: 0, layer: 0 }
    }

    /// Says that what comes now is of the next layer.
    pub fn next_layer(&mut self) {
        self.layer += 1;
    }

    /// Takes one entry of a layer in.
    pub fn bring(&mut self, path: &[u8], brought: Item, marks: Marks) -> Result<(), String> {
        let Some((folder, name)) = split(path) else {
            // The root itself.
            if brought == Item::Folder {
                self.nodes[0].marks = marks;
            }
            return Ok(());
        };
        if name == b".." || name.len() > NAME_BYTES_MAX || path.contains(&0) {
            return Err(format!("{} is no path", shown(path)));
        }
        if name == OPAQUE {
            if let Some(folder) = self.folder(folder, path, Missing::Stays)? {
                self.keep_fresh(folder);
            }
            return Ok(());
        }
        if let Some(gone) = name.strip_prefix(WHITEOUT) {
            return self.take_away(folder, gone, path);
        }
        let kind = match brought {
            Item::Folder => Kind::Folder(BTreeMap::new()),
            Item::File { spot, bytes } => Kind::File { spot, bytes },
            Item::Link(target) => Kind::Link(target),
            Item::Pipe => Kind::Pipe,
            Item::Same(target) => {
                let node = self.file_at(&target, path)?;
                let folder = self.folder(folder, path, Missing::Made)?.unwrap_or(0);
                return self.put(folder, name, node);
            }
        };
        let folder = self.folder(folder, path, Missing::Made)?.unwrap_or(0);
        let node = match (self.child(folder, name), &kind) {
            // A folder over a folder keeps what is in it.
            (Some(Name { node, .. }), Kind::Folder(_)) if matches!(self.nodes[node].kind, Kind::Folder(_)) => {
                self.nodes[node].marks = marks;
                node
            }
            _ => self.add(Node { kind, marks })?,
        };
        self.put(folder, name, node)
    }

    /// Makes a folder if there is nothing at a path.
    pub fn ensure_folder(&mut self, path: &[u8]) -> Result<(), String> {
        self.folder(path, path, Missing::Made).map(drop)
    }

    /// Gives everything: folders before what is in them.
    pub fn all(&self) -> Vec<(Vec<u8>, Item, Marks)> {
        let (mut all, mut first) = (Vec::new(), BTreeMap::new());
        self.gather(0, &mut Vec::new(), &mut first, &mut all);
        all
    }

    fn gather(
        &self,
        folder: usize,
        path: &mut Vec<u8>,
        first: &mut BTreeMap<usize, Vec<u8>>,
        all: &mut Vec<(Vec<u8>, Item, Marks)>,
    ) {
        let Kind::Folder(names) = &self.nodes[folder].kind else { return };
        for (name, Name { node, .. }) in names {
            let before = path.len();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            let Node { kind, marks } = &self.nodes[*node];
            let found = match (first.get(node), kind) {
                (_, Kind::Folder(_)) => Item::Folder,
                (Some(other), _) => Item::Same(other.clone()),
                (None, Kind::File { spot, bytes }) => Item::File { spot: *spot, bytes: *bytes },
                (None, Kind::Link(target)) => Item::Link(target.clone()),
                (None, Kind::Pipe) => Item::Pipe,
            };
            if matches!(found, Item::File { .. } | Item::Link(_) | Item::Pipe) {
                first.insert(*node, path.clone());
            }
            all.push((path.clone(), found, *marks));
            // No deeper than any path that was brought.
            self.gather(*node, path, first, all);
            path.truncate(before);
        }
    }

    fn add(&mut self, node: Node) -> Result<usize, String> {
        if self.nodes.len() >= IMAGE_ENTRIES_MAX {
            return Err(format!("more than {IMAGE_ENTRIES_MAX} files"));
        }
        if let Kind::Link(target) = &node.kind {
            self.name_bytes += target.len();
        }
        self.nodes.push(node);
        Ok(self.nodes.len() - 1)
    }

    fn put(&mut self, folder: usize, name: &[u8], node: usize) -> Result<(), String> {
        self.name_bytes += name.len();
        if self.name_bytes > IMAGE_NAME_BYTES_MAX {
            return Err(format!("more than {IMAGE_NAME_BYTES_MAX} bytes of names"));
        }
        let layer = self.layer;
        if let Kind::Folder(names) = &mut self.nodes[folder].kind {
            names.insert(name.to_vec(), Name { node, layer });
        }
        Ok(())
    }

    fn child(&self, folder: usize, name: &[u8]) -> Option<Name> {
        match &self.nodes[folder].kind {
            Kind::Folder(names) => names.get(name).copied(),
            Kind::File { .. } | Kind::Link(_) | Kind::Pipe => None,
        }
    }

    fn take_away(&mut self, folder: &[u8], name: &[u8], path: &[u8]) -> Result<(), String> {
        if name.is_empty() || name == b"." || name == b".." {
            return Err(format!("{} is no path", shown(path)));
        }
        // Names of this kind belong to tools, not to files.
        if name.starts_with(WHITEOUT) {
            return Ok(());
        }
        let Some(folder) = self.folder(folder, path, Missing::Stays)? else { return Ok(()) };
        let Some(Name { node, layer }) = self.child(folder, name) else { return Ok(()) };
        let fresh = self.keep_fresh(node) || layer == self.layer;
        if !fresh && let Kind::Folder(names) = &mut self.nodes[folder].kind {
            names.remove(name);
        }
        Ok(())
    }

    /// Drops from a folder what this layer did not bring. Says whether anything is left.
    fn keep_fresh(&mut self, folder: usize) -> bool {
        let Kind::Folder(names) = &self.nodes[folder].kind else { return false };
        let names: Vec<(Vec<u8>, Name)> = names.iter().map(|(name, at)| (name.clone(), *at)).collect();
        let mut left = false;
        for (name, Name { node, layer }) in names {
            let fresh = self.keep_fresh(node) || layer == self.layer;
            left |= fresh;
            if !fresh && let Kind::Folder(names) = &mut self.nodes[folder].kind {
                names.remove(&name);
            }
        }
        left
    }

    /// Finds the file that another name is to be of.
    fn file_at(&mut self, target: &[u8], path: &[u8]) -> Result<usize, String> {
        let none = || format!("{} is another name of a file that is not there", shown(path));
        let (folder, name) = split(target).ok_or_else(none)?;
        let folder = self.folder(folder, path, Missing::Stays)?.ok_or_else(none)?;
        let Name { node, .. } = self.child(folder, name).ok_or_else(none)?;
        if matches!(self.nodes[node].kind, Kind::Folder(_)) { Err(none()) } else { Ok(node) }
    }

    /// Walks to a folder. Links are followed, never out.
    fn folder(&mut self, walk: &[u8], path: &[u8], missing: Missing) -> Result<Option<usize>, String> {
        let mut links = 0;
        // Folders from the root down to here, and names that are still to be walked, the next one last.
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
                (None, Missing::Stays) => return Ok(None),
                (None, Missing::Made) if name.len() > NAME_BYTES_MAX => {
                    return Err(format!("{} is no path", shown(path)));
                }
                (None, Missing::Made) => {
                    let node = self.add(Node { kind: Kind::Folder(BTreeMap::new()), marks: MADE_FOLDER })?;
                    self.put(here, &name, node)?;
                    node
                }
            };
            match &self.nodes[next].kind {
                Kind::Folder(_) => trail.push(next),
                Kind::Link(target) => {
                    links += 1;
                    if links > IMAGE_LINKS_MAX {
                        return Err(format!("{} leads through more than {IMAGE_LINKS_MAX} links", shown(path)));
                    }
                    if target.starts_with(b"/") {
                        trail.truncate(1);
                    }
                    ahead.extend(parts(target).rev().map(<[u8]>::to_vec));
                }
                Kind::File { .. } | Kind::Pipe if missing == Missing::Stays => return Ok(None),
                Kind::File { .. } | Kind::Pipe => {
                    return Err(format!("{} leads through something that is no folder", shown(path)));
                }
            }
            if trail.len() > IMAGE_LEVELS_MAX || ahead.len() > 16 * IMAGE_LEVELS_MAX {
                return Err(format!("{} is deeper than {IMAGE_LEVELS_MAX} folders", shown(path)));
            }
        }
        Ok(trail.last().copied())
    }
}

/// Gives the bytes of all files.
pub fn bytes(all: &[(Vec<u8>, Item, Marks)]) -> u64 {
    let of = |(_, found, _): &(Vec<u8>, Item, Marks)| if let Item::File { bytes, .. } = found { *bytes } else { 0 };
    all.iter().map(of).fold(0, u64::saturating_add)
}

/// What becomes of a folder that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Made,
    Stays,
}

fn parts(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

/// Takes the last name off a path. Nothing for the root.
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
