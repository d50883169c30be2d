//! Chooses what `COPY --from` names out of an image: paths are walked inside of it, links included, and patterns stand for the names of one
//! folder. Pure.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::Path,
};

use super::tree::{Item, Marks, Spot, shown};
use crate::{build::ignore::glob, limits::IMAGE_LINKS_MAX};

/// What was chosen.
#[derive(Debug)]
pub struct Picked {
    /// By the paths it is to have: a file under its name, what is in a folder under the names it has there.
    pub all: Vec<(Vec<u8>, Item, Marks)>,
    /// How many paths were meant.
    pub paths: usize,
    /// Whether one of them was a folder.
    pub folders: bool,
}

/// Everything in an image by its path.
type Known<'a> = BTreeMap<&'a [u8], (&'a Item, Marks)>;

/// Chooses. Of two things with the same name the later one counts.
pub fn pick(all: &[(Vec<u8>, Item, Marks)], sources: &[String]) -> Result<Picked, String> {
    let known: Known<'_> = all.iter().map(|(path, item, marks)| (path.as_slice(), (item, *marks))).collect();
    let (mut chosen, mut paths, mut folders) = (BTreeMap::new(), 0, false);
    for source in sources {
        let meant = meant(&known, source)?;
        paths += meant.len();
        for path in meant {
            let missing = || format!("{} is not in that image", shown(&path));
            let real = walk(&known, &path)?.ok_or_else(missing)?;
            match known.get(real.as_slice()) {
                Some((item, marks)) if **item != Item::Folder => {
                    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(&path);
                    chosen.insert(name.to_vec(), ((*item).clone(), *marks));
                }
                _ => {
                    folders = true;
                    chosen.extend(below(&known, &real).map(|(name, (item, marks))| {
                        let name = name.to_vec();
                        (name, (item.clone(), marks))
                    }));
                }
            }
        }
    }
    Ok(Picked { all: by_new_names(&known, chosen), paths, folders })
}

/// Gives what is in a folder, by names relative to it.
fn below<'a, 'k>(
    known: &'k Known<'a>,
    folder: &[u8],
) -> impl Iterator<Item = (&'a [u8], (&'a Item, Marks))> + use<'a, 'k> {
    let front = if folder.is_empty() { Vec::new() } else { [folder, b"/"].concat() };
    let from = known.range::<[u8], _>((std::ops::Bound::Included(front.as_slice()), std::ops::Bound::Unbounded));
    from.map_while(move |(path, found)| path.strip_prefix(front.as_slice()).map(|name| (name, *found)))
}

/// Gives the paths that a source stands for.
fn meant(known: &Known<'_>, source: &str) -> Result<Vec<Vec<u8>>, String> {
    let (above, last) = source.rsplit_once('/').unwrap_or(("", source));
    if !last.contains(['*', '?', '[']) {
        return Ok(vec![source.as_bytes().to_vec()]);
    }
    let (fitting, missing) = (glob(last)?, || format!("{source:?} is not in that image"));
    let folder = walk(known, above.as_bytes())?.ok_or_else(missing)?;
    let fits = |name: &&[u8]| !name.contains(&b'/') && fitting.is_match(Path::new(OsStr::from_bytes(name)));
    let names = below(known, &folder).map(|(name, _)| name).filter(fits);
    let paths: Vec<Vec<u8>> = names.map(|name| [folder.as_slice(), b"/", name].concat()).collect();
    if paths.is_empty() { Err(missing()) } else { Ok(paths) }
}

/// Walks to what a path leads to, through links and never out. Nothing if there is nothing.
fn walk(known: &Known<'_>, path: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let parts = |path: &[u8]| {
        let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
        parts.map(<[u8]>::to_vec).rev().collect::<Vec<_>>()
    };
    let (mut here, mut ahead, mut links) = (Vec::new(), parts(path), 0);
    while let Some(name) = ahead.pop() {
        if name == b".." {
            here.truncate(here.iter().rposition(|byte| *byte == b'/').unwrap_or(0));
            continue;
        }
        let next = if here.is_empty() { name } else { [here.as_slice(), b"/", &name].concat() };
        match known.get(next.as_slice()).map(|(item, _)| resolved(known, item)) {
            None => return Ok(None),
            Some(Item::Link(target)) => {
                links += 1;
                if links > IMAGE_LINKS_MAX {
                    return Err(format!("{} leads through more than {IMAGE_LINKS_MAX} links", shown(path)));
                }
                if target.starts_with(b"/") {
                    here.clear();
                }
                ahead.extend(parts(target));
            }
            Some(Item::Folder) => here = next,
            Some(_) if ahead.is_empty() => here = next,
            Some(_) => return Ok(None),
        }
    }
    Ok(Some(here))
}

/// Gives what another name of a file is a name of.
fn resolved<'a>(known: &Known<'a>, item: &'a Item) -> &'a Item {
    match item {
        Item::Same(other) => known.get(other.as_slice()).map_or(item, |(item, _)| item),
        item => item,
    }
}

/// Names of one file stay together, under names that were chosen.
fn by_new_names(known: &Known<'_>, chosen: BTreeMap<Vec<u8>, (Item, Marks)>) -> Vec<(Vec<u8>, Item, Marks)> {
    let mut first: HashMap<Spot, Vec<u8>> = HashMap::new();
    let named = |(path, (item, marks)): (Vec<u8>, (Item, Marks))| {
        let item = match resolved(known, &item).clone() {
            Item::File { spot, bytes } => match first.get(&spot) {
                Some(other) => Item::Same(other.clone()),
                None => {
                    first.insert(spot, path.clone());
                    Item::File { spot, bytes }
                }
            },
            item => item,
        };
        (path, item, marks)
    };
    chosen.into_iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: Marks = Marks { mode: 0o644, owner: 7, group: 7, changed_at: 0 };

    fn image() -> Vec<(Vec<u8>, Item, Marks)> {
        let file = |entry| Item::File { spot: Spot { layer: 0, entry }, bytes: 1 };
        let link = |to: &str| Item::Link(to.as_bytes().to_vec());
        let all = [
            ("bin", link("usr/bin")),
            ("etc", Item::Folder),
            ("etc/motd", file(1)),
            ("etc/round", link("/etc/round")),
            ("tool", file(2)),
            ("usr", Item::Folder),
            ("usr/bin", Item::Folder),
            ("usr/bin/a", file(3)),
            ("usr/bin/b", Item::Same(b"usr/bin/a".to_vec())),
            ("usr/bin/c", link("../../../../tool")),
            ("usr/bin.d", Item::Folder),
            ("usr/bin.d/x", file(4)),
        ];
        all.into_iter().map(|(path, item)| (path.as_bytes().to_vec(), item, MARKS)).collect()
    }

    /// Shows what is chosen: each path, and of files which one.
    fn picked(sources: &[&str]) -> Result<(String, usize, bool), String> {
        let sources: Vec<String> = sources.iter().map(|source| (*source).to_owned()).collect();
        let Picked { all, paths, folders } = pick(&image(), &sources)?;
        let show = |(path, item, _): &(Vec<u8>, Item, Marks)| {
            let path = String::from_utf8(path.clone()).unwrap();
            match item {
                Item::Folder => format!("{path}/"),
                Item::File { spot, .. } => format!("{path}:{}", spot.entry),
                Item::Link(to) => format!("{path}->{}", String::from_utf8_lossy(to)),
                Item::Same(to) => format!("{path}={}", String::from_utf8_lossy(to)),
                Item::Pipe => format!("{path}|"),
            }
        };
        Ok((all.iter().map(show).collect::<Vec<_>>().join(" "), paths, folders))
    }

    #[test]
    fn files_keep_their_name_and_folders_give_what_is_in_them() {
        assert_eq!(picked(&["/tool"]).unwrap(), ("tool:2".to_owned(), 1, false));
        assert_eq!(picked(&["/usr/bin"]).unwrap(), ("a:3 b=a c->../../../../tool".to_owned(), 1, true));
        assert_eq!(picked(&["/usr"]).unwrap().0, "bin/ bin.d/ bin.d/x:4 bin/a:3 bin/b=bin/a bin/c->../../../../tool");
        assert!(picked(&["/"]).unwrap().0.starts_with("bin->usr/bin etc/ etc/motd:1"));
        assert_eq!(picked(&["/etc/motd", "/usr/bin/a"]).unwrap(), ("a:3 motd:1".to_owned(), 2, false));
    }

    #[test]
    fn links_are_followed_inside_of_the_image_only() {
        assert_eq!(picked(&["/bin/a"]).unwrap().0, "a:3");
        assert_eq!(picked(&["/bin/c"]).unwrap().0, "c:2");
        assert_eq!(picked(&["/bin"]).unwrap(), picked(&["/usr/bin"]).unwrap());
        assert_eq!(picked(&["/../../tool"]).unwrap().0, "tool:2");
        assert!(picked(&["/etc/round"]).unwrap_err().contains("more than 40 links"));
    }

    #[test]
    fn patterns_stand_for_names_of_one_folder() {
        assert_eq!(picked(&["/usr/bin/?"]).unwrap(), ("a:3 b=a c:2".to_owned(), 3, false));
        assert_eq!(picked(&["/bin/[ab]"]).unwrap().0, "a:3 b=a");
        assert_eq!(picked(&["/usr/bin*"]).unwrap().1, 2);
        assert!(picked(&["/usr/z*"]).unwrap_err().contains("not in that image"));
    }

    #[test]
    fn another_name_of_a_file_that_was_not_chosen_is_the_file() {
        assert_eq!(picked(&["/usr/bin/b"]).unwrap().0, "b:3");
    }

    #[test]
    fn what_is_not_there_is_named() {
        for path in ["/nowhere", "/tool/x", "/etc/motd/../motd", "/nowhere/*"] {
            assert!(picked(&[path]).unwrap_err().contains("is not in that image"), "{path}");
        }
    }
}
