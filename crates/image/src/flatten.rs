//! Merges an image's layers into one archive, in two passes: the first finds the entries that
//! remain, the second writes them. Blocking. No entry becomes a file on this host: contents go from
//! one archive into the other.

use std::{
    collections::HashMap,
    ffi::OsStr,
    io::{self, Read, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use sha2::Digest as _;
use tar::{Archive, Builder, Entry, EntryType, Header, PaxExtensions};
use tokio_util::sync::CancellationToken;

use crate::{
    limits::{IMAGE_ENTRIES_MAX, IMAGE_EXTENSION_BYTES_MAX, IMAGE_UNPACKED_BYTES_MAX},
    reference::ImageDigest,
    tree::{ContentPosition, EntryContent, FileAttributes, ImageTree, PathContent, TreeListing, shown},
    unpacked::UncompressedLayer,
};

/// A layer that was fetched.
#[derive(Clone, Debug)]
pub struct FetchedLayer {
    pub path: PathBuf,
    /// Digest of the uncompressed layer.
    pub unpacked: ImageDigest,
}

/// The merged files of all layers.
pub struct FlattenedImage {
    pub tree: ImageTree,
    /// Number of entries left out, such as device nodes, which machines make themselves.
    pub left_out: usize,
}

/// Why layers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FlattenError {
    #[error("layer {layer}: {problem}")]
    Layer { layer: usize, problem: String },
    #[error("the unpacked layers are larger than {IMAGE_UNPACKED_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the build was cancelled")]
    Stopped,
}

/// Finds the entries that remain of all layers. Adds the folders that commands need.
pub fn look(
    layers: &[FetchedLayer],
    folder: Option<&str>,
    stop: &CancellationToken,
) -> Result<FlattenedImage, FlattenError> {
    let (mut tree, mut left_out, mut unpacked, mut entries) = (ImageTree::default(), 0, 0, 0);
    for (number, FetchedLayer { path, unpacked: wanted }) in layers.iter().enumerate() {
        tree.next_layer();
        let mut reader = UncompressedLayer::open(path, stop, IMAGE_UNPACKED_BYTES_MAX - unpacked)
            .map_err(|error| bad(number, &error))?;
        let walked = walk(&mut reader, |part, _| {
            entries += 1;
            if entries > IMAGE_ENTRIES_MAX {
                return Err(format!("more than {IMAGE_ENTRIES_MAX} files"));
            }
            match part.brought(number)? {
                Some(brought) => tree.add_entry(&part.path, brought, part.marks),
                None => {
                    left_out += 1;
                    Ok(())
                }
            }
        });
        // An archive may have trailing bytes. The digest covers them too.
        let ended = walked.and_then(|()| io::copy(&mut reader, &mut io::sink()).map(drop).map_err(|e| e.to_string()));
        match ended {
            _ if stop.is_cancelled() => return Err(FlattenError::Stopped),
            _ if reader.over => return Err(FlattenError::TooLarge),
            ended => ended.map_err(|problem| FlattenError::Layer { layer: number + 1, problem })?,
        }
        unpacked += reader.bytes;
        if ImageDigest::of(&reader.hasher.finalize()) != *wanted {
            let problem = "the digest of its contents does not match the image configuration".to_owned();
            return Err(FlattenError::Layer { layer: number + 1, problem });
        }
    }
    if let Some(folder) = folder {
        let at = |problem| FlattenError::Layer { layer: layers.len(), problem };
        tree.ensure_folder(folder.as_bytes()).map_err(at)?;
    }
    Ok(FlattenedImage { tree, left_out })
}

/// Writes the merged files as one archive: folders, then files layer by layer, then links, so that
/// nothing is written through a link.
pub fn write(
    listing: &TreeListing,
    layers: &[FetchedLayer],
    to: impl Write,
    stop: &CancellationToken,
) -> Result<(), FlattenError> {
    let out =
        |error: io::Error| FlattenError::Layer { layer: 0, problem: format!("write the merged archive: {error}") };
    let mut builder = Builder::new(to);
    let (mut files, mut later) = (HashMap::new(), Vec::new());
    for (number, entry) in listing.entries().iter().enumerate() {
        match entry.item {
            PathContent::Folder => {
                let path = listing.path(number);
                put(&mut builder, &path, entry.marks, EntryType::Directory, None).map_err(out)?;
            }
            PathContent::File { spot, .. } => drop(files.insert(spot, number)),
            PathContent::Link(_) | PathContent::Same(_) | PathContent::Pipe => later.push(number),
        }
    }
    for (number, FetchedLayer { path, .. }) in layers.iter().enumerate() {
        let mut reader =
            UncompressedLayer::open(path, stop, IMAGE_UNPACKED_BYTES_MAX).map_err(|error| bad(number, &error))?;
        let walked = walk(&mut reader, |part, contents| {
            let Some(found) = files.get(&ContentPosition { layer: number, entry: part.entry }) else { return Ok(()) };
            let mut header = header(listing.entries()[*found].marks, EntryType::Regular);
            header.set_size(part.bytes);
            builder.append_data(&mut header, os(&listing.path(*found)), contents).map_err(|error| error.to_string())
        });
        if stop.is_cancelled() {
            return Err(FlattenError::Stopped);
        }
        walked.map_err(|problem| FlattenError::Layer { layer: number + 1, problem })?;
    }
    for number in later {
        let entry = &listing.entries()[number];
        let (kind, target) = match &entry.item {
            PathContent::Link(target) => (EntryType::Symlink, Some(target.clone())),
            PathContent::Same(first) => (EntryType::Link, Some(listing.path(*first))),
            PathContent::Folder | PathContent::File { .. } | PathContent::Pipe => (EntryType::Fifo, None),
        };
        put(&mut builder, &listing.path(number), entry.marks, kind, target.as_deref()).map_err(out)?;
    }
    builder.into_inner().and_then(|mut to| to.flush()).map_err(out)
}

fn put(
    to: &mut Builder<impl Write>,
    path: &[u8],
    marks: FileAttributes,
    kind: EntryType,
    target: Option<&[u8]>,
) -> io::Result<()> {
    let mut header = header(marks, kind);
    match target {
        Some(target) => to.append_link(&mut header, os(path), os(target)),
        None => to.append_data(&mut header, os(path), io::empty()),
    }
}

fn header(marks: FileAttributes, kind: EntryType) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(0);
    header.set_mode(marks.mode & 0o7777);
    header.set_uid(marks.owner);
    header.set_gid(marks.group);
    header.set_mtime(marks.changed_at);
    header
}

fn os(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn bad(layer: usize, error: &io::Error) -> FlattenError {
    FlattenError::Layer { layer: layer + 1, problem: error.to_string() }
}

/// One entry, with its full names.
struct LayerEntry {
    entry: usize,
    path: Vec<u8>,
    link: Vec<u8>,
    kind: EntryType,
    bytes: u64,
    marks: FileAttributes,
}

impl LayerEntry {
    fn brought(&self, layer: usize) -> Result<Option<EntryContent>, String> {
        let spot = ContentPosition { layer, entry: self.entry };
        Ok(Some(match self.kind {
            EntryType::Directory => EntryContent::Folder,
            // Old archives mark a folder only by the slash at the end of its name.
            EntryType::Regular if self.path.ends_with(b"/") => EntryContent::Folder,
            EntryType::Regular | EntryType::Continuous => EntryContent::File { spot, bytes: self.bytes },
            EntryType::Symlink if self.link.is_empty() || self.link.len() > 4095 || self.link.contains(&0) => {
                return Err(format!("the symbolic link {} has an invalid target", shown(&self.path)));
            }
            EntryType::Symlink => EntryContent::Link(self.link.clone()),
            EntryType::Link => EntryContent::Same(self.link.clone()),
            EntryType::Fifo => EntryContent::Pipe,
            EntryType::Char | EntryType::Block => return Ok(None),
            other => return Err(format!("{} has the unsupported entry type {other:?}", shown(&self.path))),
        }))
    }
}

/// Values from extension headers, which apply to the next entry.
#[derive(Default)]
struct ExtensionValues {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    owner: Option<u64>,
    group: Option<u64>,
}

/// Walks through an archive. Reads extension headers itself, within a limit: the library would read
/// any size of them into memory.
fn walk(
    from: &mut impl Read,
    mut each: impl FnMut(&LayerEntry, &mut dyn Read) -> Result<(), String>,
) -> Result<(), String> {
    let broken = |error: io::Error| format!("not a valid tar archive: {error}");
    let mut archive = Archive::new(from);
    let mut ahead = ExtensionValues::default();
    for (number, entry) in archive.entries().map_err(broken)?.raw(true).enumerate() {
        let mut entry = entry.map_err(broken)?;
        match entry.header().entry_type() {
            EntryType::GNULongName => ahead.path = Some(name(extension(&mut entry)?)),
            EntryType::GNULongLink => ahead.link = Some(name(extension(&mut entry)?)),
            EntryType::XHeader => {
                let size = entry.size();
                read_pax(&extension(&mut entry)?, &mut ahead).map_err(|why| format!("{why} ({size} bytes)"))?;
            }
            EntryType::XGlobalHeader => drop(extension(&mut entry)?),
            kind => {
                let part = part(&entry, number, kind, std::mem::take(&mut ahead)).map_err(broken)?;
                each(&part, &mut entry)?;
            }
        }
    }
    Ok(())
}

fn part(
    entry: &Entry<'_, impl Read>,
    number: usize,
    kind: EntryType,
    ahead: ExtensionValues,
) -> io::Result<LayerEntry> {
    let header = entry.header();
    let path = ahead.path.unwrap_or_else(|| header.path_bytes().into_owned());
    let link = ahead.link.or_else(|| header.link_name_bytes().map(|name| name.into_owned())).unwrap_or_default();
    let marks = FileAttributes {
        mode: header.mode()? & 0o7777,
        // Some archives leave these fields empty, which means root.
        owner: ahead.owner.unwrap_or_else(|| header.uid().unwrap_or(0)),
        group: ahead.group.unwrap_or_else(|| header.gid().unwrap_or(0)),
        changed_at: header.mtime().unwrap_or(0),
    };
    Ok(LayerEntry { entry: number, path, link, kind, bytes: entry.size(), marks })
}

fn extension(entry: &mut Entry<'_, impl Read>) -> Result<Vec<u8>, String> {
    if entry.size() > IMAGE_EXTENSION_BYTES_MAX {
        return Err(format!("a long name or extended header is larger than {IMAGE_EXTENSION_BYTES_MAX} bytes"));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(|error| format!("not a valid tar archive: {error}"))?;
    Ok(bytes)
}

fn name(mut bytes: Vec<u8>) -> Vec<u8> {
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes
}

fn read_pax(bytes: &[u8], ahead: &mut ExtensionValues) -> Result<(), String> {
    for record in PaxExtensions::new(bytes) {
        let record = record.map_err(|error| format!("an extended header cannot be read: {error}"))?;
        let number = || record.value().ok().and_then(|value| value.parse::<u64>().ok());
        match record.key_bytes() {
            b"path" => ahead.path = Some(record.value_bytes().to_vec()),
            b"linkpath" => ahead.link = Some(record.value_bytes().to_vec()),
            b"uid" => ahead.owner = number(),
            b"gid" => ahead.group = number(),
            b"size" => return Err("an entry gives its size in an extended header, which is not supported".to_owned()),
            key if key.starts_with(b"GNU.sparse.") => return Err("sparse files are not supported".to_owned()),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
