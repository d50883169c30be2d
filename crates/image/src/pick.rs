//! Selects the files that `COPY --from` names from an image. Paths and links are resolved inside
//! the image, and a pattern matches the names of one folder. Pure.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use pandastack_dockerfile::ignore::glob;

use crate::{
    limits::IMAGE_PICKED_MAX,
    tree::{CopiedNodes, ImageTree, TreeListing, parts, shown},
};

/// The selected files.
#[derive(Debug)]
pub struct PickedFiles {
    /// By their new names: a file under its own name, the contents of a folder under their names in
    /// it.
    pub listing: TreeListing,
    /// Number of paths that the sources matched.
    pub paths: usize,
    /// Whether one of them was a folder.
    pub folders: bool,
}

/// Selects files. Of two entries with the same name the later one wins.
pub fn pick(tree: &ImageTree, sources: &[String]) -> Result<PickedFiles, String> {
    let (mut picked, mut copied) = (ImageTree::default(), CopiedNodes::at_most(IMAGE_PICKED_MAX));
    let (mut paths, mut folders) = (0, false);
    for source in sources {
        for (name, node) in meant(tree, source)? {
            paths += 1;
            if !tree.is_folder(node) {
                picked.copy((tree, node), (0, &name), &mut copied)?;
                continue;
            }
            folders = true;
            for (name, inner) in tree.names(node) {
                picked.copy((tree, inner), (0, name), &mut copied)?;
            }
        }
    }
    Ok(PickedFiles { listing: picked.list(), paths, folders })
}

/// Resolves a source to entries, each with its last name.
fn meant(tree: &ImageTree, source: &str) -> Result<Vec<(Vec<u8>, usize)>, String> {
    let missing = |path: &[u8]| format!("{} does not exist in the image", shown(path));
    let found = |from: Vec<usize>, path: &[u8]| {
        let trail = tree.walk(from, path)?.ok_or_else(|| missing(path))?;
        let name = parts(path).next_back().unwrap_or_default().to_vec();
        Ok::<_, String>((name, trail))
    };
    let last_of = |(name, trail): (Vec<u8>, Vec<usize>)| (name, trail.last().copied().unwrap_or(0));
    let (above, last) = source.rsplit_once('/').unwrap_or(("", source));
    if !last.contains(['*', '?', '[']) {
        return Ok(vec![last_of(found(vec![0], source.as_bytes())?)]);
    }
    let fitting = glob(last)?;
    let folder = tree.walk(vec![0], above.as_bytes())?.ok_or_else(|| missing(source.as_bytes()))?;
    let names = tree.names(folder.last().copied().unwrap_or(0)).map(|(name, _)| name);
    let names = names.filter(|name| fitting.is_match(Path::new(OsStr::from_bytes(name))));
    let all: Vec<_> = names.map(|name| found(folder.clone(), name).map(last_of)).collect::<Result<_, _>>()?;
    if all.is_empty() { Err(missing(source.as_bytes())) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::tree::{ContentPosition, EntryContent, FileAttributes, PathContent};

    const MARKS: FileAttributes = FileAttributes { mode: 0o644, owner: 7, group: 7, changed_at: 0 };

    fn image() -> ImageTree {
        let file = |entry| EntryContent::File { spot: ContentPosition { layer: 0, entry }, bytes: 1 };
        let link = |to: &str| EntryContent::Link(to.as_bytes().to_vec());
        let all = [
            ("bin", link("usr/bin")),
            ("etc", EntryContent::Folder),
            ("etc/motd", file(1)),
            ("etc/round", link("/etc/round")),
            ("tool", file(2)),
            ("usr", EntryContent::Folder),
            ("usr/bin", EntryContent::Folder),
            ("usr/bin/a", file(3)),
            ("usr/bin/b", EntryContent::Same(b"usr/bin/a".to_vec())),
            ("usr/bin/c", link("../../../../tool")),
            ("usr/bin.d", EntryContent::Folder),
            ("usr/bin.d/x", file(4)),
        ];
        let mut tree = ImageTree::default();
        for (path, brought) in all {
            tree.add_entry(path.as_bytes(), brought, MARKS).unwrap();
        }
        tree
    }

    /// Shows the selected paths, and for a file which one it is.
    fn picked(sources: &[&str]) -> Result<(String, usize, bool), String> {
        let sources: Vec<String> = sources.iter().map(|source| (*source).to_owned()).collect();
        let PickedFiles { listing, paths, folders } = pick(&image(), &sources)?;
        let path = |entry| String::from_utf8(listing.path(entry)).unwrap();
        let show = |number: usize| match &listing.entries()[number].item {
            PathContent::Folder => format!("{}/", path(number)),
            PathContent::File { spot, .. } => format!("{}:{}", path(number), spot.entry),
            PathContent::Link(to) => format!("{}->{}", path(number), String::from_utf8_lossy(to)),
            PathContent::Same(first) => format!("{}={}", path(number), path(*first)),
            PathContent::Pipe => format!("{}|", path(number)),
        };
        Ok(((0..listing.entries().len()).map(show).collect::<Vec<_>>().join(" "), paths, folders))
    }

    #[test]
    fn files_keep_their_name_and_folders_give_what_is_in_them() {
        assert_eq!(picked(&["/tool"]).unwrap(), ("tool:2".to_owned(), 1, false));
        assert_eq!(picked(&["/usr/bin"]).unwrap(), ("a:3 b=a c->../../../../tool".to_owned(), 1, true));
        assert_eq!(picked(&["/usr"]).unwrap().0, "bin/ bin/a:3 bin/b=bin/a bin/c->../../../../tool bin.d/ bin.d/x:4");
        assert!(picked(&["/"]).unwrap().0.starts_with("bin->usr/bin etc/ etc/motd:1"));
        assert_eq!(picked(&["/etc/motd", "/usr/bin/a"]).unwrap(), ("a:3 motd:1".to_owned(), 2, false));
    }

    #[test]
    fn links_are_followed_inside_of_the_image_only() {
        assert_eq!(picked(&["/bin/a"]).unwrap().0, "a:3");
        assert_eq!(picked(&["/bin/c"]).unwrap().0, "c:2");
        assert_eq!(picked(&["/bin"]).unwrap(), picked(&["/usr/bin"]).unwrap());
        assert_eq!(picked(&["/../../tool"]).unwrap().0, "tool:2");
        assert!(picked(&["/etc/round"]).unwrap_err().contains("more than 40 symbolic links"));
    }

    #[test]
    fn patterns_stand_for_names_of_one_folder() {
        assert_eq!(picked(&["/usr/bin/?"]).unwrap(), ("a:3 b=a c:2".to_owned(), 3, false));
        assert_eq!(picked(&["/bin/[ab]"]).unwrap().0, "a:3 b=a");
        assert_eq!(picked(&["/usr/bin*"]).unwrap().1, 2);
        assert!(picked(&["/usr/z*"]).unwrap_err().contains("does not exist in the image"));
    }

    #[test]
    fn another_name_of_a_file_that_was_not_chosen_is_the_file() {
        assert_eq!(picked(&["/usr/bin/b"]).unwrap().0, "b:3");
    }

    #[test]
    fn what_is_not_there_is_named() {
        for path in ["/nowhere", "/tool/x", "/etc/motd/../motd", "/nowhere/*"] {
            assert!(picked(&[path]).unwrap_err().contains("does not exist in the image"), "{path}");
        }
    }

    #[test]
    fn a_folder_named_again_and_again_is_refused() {
        let mut tree = ImageTree::default();
        for entry in 0..1000 {
            let file = EntryContent::File { spot: ContentPosition { layer: 0, entry }, bytes: 1 };
            tree.add_entry(format!("d/{entry}").as_bytes(), file, MARKS).unwrap();
        }
        let sources = vec!["/".to_owned(); IMAGE_PICKED_MAX / 1000];
        assert!(pick(&tree, &sources).unwrap_err().contains("too many files"));
    }
}
