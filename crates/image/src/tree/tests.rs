//! Layers as lists of names, and the tree they result in.

use super::*;

const MARKS: FileAttributes = FileAttributes { mode: 0o644, owner: 1, group: 2, changed_at: 3 };

/// Makes a tree of layers. `a/` is a folder, `a -> b` a link, `a = b` a hard link to b, anything
/// else a file.
fn tree(layers: &[&[&str]]) -> Result<ImageTree, String> {
    let mut tree = ImageTree::default();
    for (layer, entries) in layers.iter().enumerate() {
        tree.next_layer();
        for (entry, text) in entries.iter().enumerate() {
            let (path, brought) = match (text.split_once(" -> "), text.split_once(" = ")) {
                (Some((path, target)), _) => (path, EntryContent::Link(target.into())),
                (_, Some((path, target))) => (path, EntryContent::Same(target.into())),
                _ if text.ends_with('/') => (*text, EntryContent::Folder),
                _ => (*text, EntryContent::File { spot: ContentPosition { layer, entry }, bytes: 10 }),
            };
            tree.add_entry(path.as_bytes(), brought, MARKS)?;
        }
    }
    Ok(tree)
}

#[track_caller]
fn check(layers: &[&[&str]], expected: &[&str]) {
    let listing = tree(layers).unwrap().list();
    let path = |entry| String::from_utf8(listing.path(entry)).unwrap();
    let shown = (0..listing.entries().len()).map(|number| match &listing.entries()[number].item {
        PathContent::Folder => format!("{}/", path(number)),
        PathContent::File { spot, .. } => format!("{} {}", path(number), spot.layer),
        PathContent::Link(target) => format!("{} -> {}", path(number), String::from_utf8_lossy(target)),
        PathContent::Same(first) => format!("{} = {}", path(number), path(*first)),
        PathContent::Pipe => format!("{} |", path(number)),
    });
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

#[test]
fn a_later_layer_lies_over_an_earlier_one() {
    check(
        &[&["./", "./etc/", "etc/a", "etc/b"], &["etc/b", "srv/x"]],
        &["etc/", "etc/a 0", "etc/b 1", "srv/", "srv/x 1"],
    );
    check(&[&["a/", "a/b"], &["a"]], &["a 1"]);
    check(&[&["a"], &["a/", "a/b"]], &["a/", "a/b 1"]);
    check(&[&["a -> b"], &["a/"]], &["a/"]);
}

#[test]
fn a_whiteout_takes_away_what_is_below() {
    check(&[&["a", "b/c", "b/d/e"], &[".wh.a", "b/.wh.d"]], &["b/", "b/c 0"]);
    check(&[&["a"], &["b/.wh.a", ".wh.nothing"]], &["a 0"]);
    check(&[&["b/c"], &[".wh.b"], &["b/d"]], &["b/", "b/d 2"]);
}

#[test]
fn a_whiteout_leaves_what_its_own_layer_brings_wherever_it_stands() {
    check(&[&["a/old"], &["a/", "a/new", ".wh.a"]], &["a/", "a/new 1"]);
    check(&[&["a/old"], &[".wh.a", "a/", "a/new"]], &["a/", "a/new 1"]);
    check(&[&["a"], &["a", ".wh.a"]], &["a 1"]);
}

#[test]
fn an_opaque_folder_hides_all_that_was_in_it() {
    check(
        &[&["a/x", "a/y/z", "b"], &["a/new", "a/y/w", "a/.wh..wh..opq"]],
        &["a/", "a/new 1", "a/y/", "a/y/w 1", "b 0"],
    );
    check(&[&["a/x"], &["a/.wh..wh..opq", "a/new"]], &["a/", "a/new 1"]);
    check(&[&["a"], &["nowhere/.wh..wh..opq", "a/.wh..wh..opq"]], &["a 0"]);
    check(&[&["x"], &[".wh..wh..opq", "y"]], &["y 1"]);
    check(&[&["a"], &[".wh..wh.plnk/", ".wh..wh.aufs"]], &["a 0"]);
}

#[test]
fn paths_and_links_lead_around_inside_only() {
    check(&[&["/etc/a", "../../b", "x/../../../c"]], &["b 0", "c 0", "etc/", "etc/a 0", "x/"]);
    check(&[&["out -> ../../../etc", "out/passwd"]], &["etc/", "etc/passwd 0", "out -> ../../../etc"]);
    check(&[&["usr/lib/", "lib -> /usr/lib"], &["lib/x"]], &["lib -> /usr/lib", "usr/", "usr/lib/", "usr/lib/x 1"]);
    // The whiteout removes the link itself, not its target.
    check(&[&["d/f", "l -> d"], &[".wh.l"]], &["d/", "d/f 0"]);
}

#[test]
fn names_of_one_file_go_on_together_when_one_of_them_goes() {
    check(&[&["a", "b = a"]], &["a 0", "b = a"]);
    check(&[&["a", "b = a"], &[".wh.a"]], &["b 0"]);
    check(&[&["a", "b = a"], &["a"]], &["a 1", "b 0"]);
    check(&[&["a"], &["d/b = /a"]], &["a 0", "d/", "d/b = a"]);
}

#[test]
fn what_leads_nowhere_is_refused() {
    for layer in [
        &["a = missing"][..],
        &["d/", "a = d"],
        &["a -> b", "b -> a", "a/x"],
        &["a", "a/b"],
        &["a/.."],
        &[".wh."],
        &[".wh..."],
    ] {
        assert!(tree(&[layer]).is_err(), "{layer:?}");
    }
    let mut tree = ImageTree::default();
    let deep = "d/".repeat(IMAGE_LEVELS_MAX + 1);
    assert!(tree.add_entry(deep.as_bytes(), EntryContent::Folder, MARKS).is_err());
    assert!(tree.add_entry(&[b'x'; 256], EntryContent::Folder, MARKS).is_err());
    assert!(tree.add_entry(b"a\0b", EntryContent::Folder, MARKS).is_err());
}

#[test]
fn folders_cannot_be_piled_up_through_links() {
    let mut tree = ImageTree::default();
    let path = "d/".repeat(200);
    tree.add_entry(path.as_bytes(), EntryContent::Folder, MARKS).unwrap();
    tree.add_entry(b"l", EntryContent::Link(path.clone().into_bytes()), MARKS).unwrap();
    let more = format!("l/{path}");
    assert!(tree.add_entry(more.as_bytes(), EntryContent::Folder, MARKS).unwrap_err().contains("deeper"));
}

#[test]
fn what_is_replaced_is_not_counted() {
    let listing = tree(&[&["a", "b", "c = a"], &["b", ".wh.a"]]).unwrap().list();
    assert_eq!(listing.bytes(), 20);
}

/// Makes a folder with a path of `levels` long names, and a link `l` to it, made through shorter
/// links.
fn deep(tree: &mut ImageTree, levels: usize) -> Result<(), String> {
    let name = "d".repeat(NAME_BYTES_MAX);
    tree.add_entry(b"l0", EntryContent::Link(b"/".to_vec()), MARKS)?;
    for level in 1..=levels {
        tree.add_entry(format!("l{}/{name}/", level - 1).as_bytes(), EntryContent::Folder, MARKS)?;
        let target = format!("/{}", vec![name.as_str(); level].join("/"));
        let below = if level <= 10 { target } else { format!("l10/{}", vec![name.as_str(); level - 10].join("/")) };
        tree.add_entry(format!("l{level}").as_bytes(), EntryContent::Link(below.into_bytes()), MARKS)?;
    }
    Ok(())
}

#[test]
fn short_names_in_a_deep_folder_take_no_long_paths() {
    let mut tree = ImageTree::default();
    deep(&mut tree, 15).unwrap();
    for entry in 0..5000 {
        let file = EntryContent::File { spot: ContentPosition { layer: 0, entry }, bytes: 1 };
        tree.add_entry(format!("l15/{entry:04}").as_bytes(), file, MARKS).unwrap();
        tree.add_entry(
            format!("l15/same{entry:04}").as_bytes(),
            EntryContent::Same(format!("l15/{entry:04}").into()),
            MARKS,
        )
        .unwrap();
    }
    let listing = tree.list();
    let held: usize = listing.entries().iter().map(|entry| entry.name.capacity()).sum();
    assert!(held <= tree.name_bytes, "{held} bytes of names are kept of {} that were brought", tree.name_bytes);
    let whole: usize = (0..listing.entries().len()).map(|entry| listing.path(entry).len()).sum();
    assert!(whole > 35_000_000 && tree.name_bytes < 200_000, "{whole} {}", tree.name_bytes);
}

#[test]
fn a_path_that_no_file_system_has_is_refused() {
    let refused = deep(&mut ImageTree::default(), 17).unwrap_err();
    assert!(refused.contains(&IMAGE_PATH_BYTES_MAX.to_string()), "{refused}");
    let long = "d/".repeat(IMAGE_PATH_BYTES_MAX);
    assert!(ImageTree::default().add_entry(long.as_bytes(), EntryContent::Folder, MARKS).is_err());
}

#[test]
fn many_whiteouts_of_a_large_folder_are_quick() {
    let mut tree = ImageTree::default();
    tree.next_layer();
    for entry in 0..50_000 {
        let file = EntryContent::File { spot: ContentPosition { layer: 0, entry }, bytes: 1 };
        tree.add_entry(format!("d/{entry}").as_bytes(), file, MARKS).unwrap();
    }
    tree.next_layer();
    tree.add_entry(b"d/new", EntryContent::Pipe, MARKS).unwrap();
    // Walking all names each time would take hours.
    for _ in 0..50_000 {
        tree.add_entry(b"d/.wh..wh..opq", EntryContent::Pipe, MARKS).unwrap();
        tree.add_entry(b".wh.d", EntryContent::Pipe, MARKS).unwrap();
    }
    assert_eq!(tree.list().entries().len(), 2);
}
