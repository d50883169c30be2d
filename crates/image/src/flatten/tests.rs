//! Layers that are merged, and layers that try to write outside of the image.

use std::io::{Cursor, Write as _};

use flate2::{Compression, write::GzEncoder};
use sha2::Sha256;

use super::*;

/// An entry of a layer.
enum Thing<'a> {
    File(&'a str, &'a str),
    Folder(&'a str),
    Link(&'a str, &'a str),
    Same(&'a str, &'a str),
    Device(&'a str),
}

use Thing::{Device, File as AFile, Folder, Link, Same};

fn archive(things: &[Thing<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for thing in things {
        let (path, kind, target, text) = match thing {
            AFile(path, text) => (path, EntryType::Regular, "", *text),
            Folder(path) => (path, EntryType::Directory, "", ""),
            Link(path, target) => (path, EntryType::Symlink, *target, ""),
            Same(path, target) => (path, EntryType::Link, *target, ""),
            Device(path) => (path, EntryType::Char, "", ""),
        };
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o4755);
        header.set_uid(7);
        header.set_gid(8);
        header.set_mtime(9);
        header.set_size(text.len() as u64);
        // Written by hand: the library would refuse a path that leads outside.
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.as_mut_bytes()[157..157 + target.len()].copy_from_slice(target.as_bytes());
        header.set_cksum();
        builder.append(&header, text.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// Writes each layer to a file, every other one compressed.
fn layers(folder: &Path, contents: &[Vec<u8>]) -> Vec<FetchedLayer> {
    let put = |(number, bytes): (usize, &Vec<u8>)| {
        let path = folder.join(number.to_string());
        std::fs::write(&path, if number % 2 == 0 { pack(bytes) } else { bytes.clone() }).unwrap();
        FetchedLayer { path, unpacked: ImageDigest::of(&Sha256::digest(bytes)) }
    };
    contents.iter().enumerate().map(put).collect()
}

fn flattened(contents: &[Vec<u8>]) -> Result<Vec<String>, String> {
    let folder = tempfile::tempdir().unwrap();
    let (layers, stop) = (layers(folder.path(), contents), CancellationToken::new());
    let flat = look(&layers, Some("/work"), &stop).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    write(&flat.tree.list(), &layers, &mut out, &stop).map_err(|error| error.to_string())?;
    let mut archive = Archive::new(Cursor::new(out));
    let shown = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        let link = entry.link_name().unwrap().map(|to| to.display().to_string());
        let header = entry.header();
        let marks = format!("{:o} {}:{}", header.mode().unwrap(), header.uid().unwrap(), header.gid().unwrap());
        match header.entry_type() {
            EntryType::Directory => format!("{path}/"),
            EntryType::Symlink => format!("{path} -> {}", link.unwrap()),
            EntryType::Link => format!("{path} = {}", link.unwrap()),
            _ => format!("{path} {marks} {text}"),
        }
    });
    Ok(shown.collect())
}

#[test]
fn layers_become_one_archive_with_links_last() {
    let first =
        archive(&[Folder("etc/"), AFile("etc/a", "one"), AFile("gone", "x"), Link("lib", "/etc"), Same("b", "etc/a")]);
    let second = archive(&[AFile("etc/a", "two"), AFile(".wh.gone", ""), AFile("lib/c", "three"), Device("dev/null")]);
    let expected = ["etc/", "work/", "b 4755 7:8 one", "etc/a 4755 7:8 two", "etc/c 4755 7:8 three", "lib -> /etc"];
    assert_eq!(flattened(&[first, second]).unwrap(), expected);
}

#[test]
fn a_hostile_archive_leads_nowhere_outside() {
    let layer = archive(&[
        AFile("../../../etc/passwd", "p"),
        AFile("/abs", "a"),
        Link("out", "../../.."),
        AFile("out/escaped", "e"),
        Same("same", "../../etc/passwd"),
    ]);
    let all = flattened(&[layer]).unwrap();
    let expected = [
        "etc/",
        "work/",
        "abs 4755 7:8 a",
        "escaped 4755 7:8 e",
        "etc/passwd 4755 7:8 p",
        "out -> ../../..",
        "same = etc/passwd",
    ];
    let (mut sorted, mut wanted) = (all.clone(), expected.map(str::to_owned).to_vec());
    sorted.sort();
    wanted.sort();
    assert_eq!(sorted, wanted);
    for bad in [Same("a", "nothing"), Link("a", ""), AFile("a/..", "")] {
        assert!(flattened(&[archive(&[bad])]).is_err());
    }
}

#[test]
fn long_names_are_read_whole_and_only_up_to_a_limit() {
    let long = format!("{}/{}", "d".repeat(150), "f".repeat(150));
    let mut builder = Builder::new(Vec::new());
    let mut header = Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(1);
    builder.append_data(&mut header, &long, &b"x"[..]).unwrap();
    builder.append_pax_extensions([("path", &b"from-pax"[..]), ("uid", b"3000000")]).unwrap();
    let mut header = Header::new_ustar();
    header.set_path("short").unwrap();
    header.set_mode(0o644);
    header.set_size(1);
    header.set_cksum();
    builder.append(&header, &b"y"[..]).unwrap();
    let all = flattened(&[builder.into_inner().unwrap()]).unwrap();
    assert!(all.contains(&format!("{long} 644 0:0 x")), "{all:?}");
    assert!(all.iter().any(|line| line.starts_with("from-pax 644 3000000:")), "{all:?}");

    for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader, EntryType::XGlobalHeader] {
        let mut builder = Builder::new(Vec::new());
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(IMAGE_EXTENSION_BYTES_MAX + 1);
        header.set_cksum();
        builder.append(&header, io::repeat(b'x').take(IMAGE_EXTENSION_BYTES_MAX + 1)).unwrap();
        let refused = flattened(&[builder.into_inner().unwrap()]).unwrap_err();
        assert!(refused.contains("extended header"), "{refused}");
    }
    let mut builder = Builder::new(Vec::new());
    builder.append_pax_extensions([("size", &b"99999999999"[..])]).unwrap();
    assert!(flattened(&[builder.into_inner().unwrap()]).is_err());
}

#[test]
fn a_layer_with_another_inside_than_its_configuration_says_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut layers = layers(folder.path(), &[archive(&[AFile("a", "x")])]);
    layers[0].unpacked = ImageDigest::of(&Sha256::digest(b"other"));
    let refused = look(&layers, None, &CancellationToken::new()).err().unwrap();
    assert!(refused.to_string().contains("does not match"), "{refused}");
}

#[test]
fn what_is_no_archive_is_refused() {
    let whole = archive(&[AFile("a", &"x".repeat(2000))]);
    for bytes in [b"no archive at all".repeat(100), whole[..700].to_vec(), vec![0xff; 1024]] {
        assert!(flattened(std::slice::from_ref(&bytes)).is_err());
    }
    assert_eq!(flattened(&[Vec::new()]).unwrap(), ["work/"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut");
    let packed = pack(&whole);
    std::fs::write(&path, &packed[..packed.len() / 2]).unwrap();
    let cut = FetchedLayer { path, unpacked: ImageDigest::of(&Sha256::digest(&whole)) };
    assert!(look(&[cut], None, &CancellationToken::new()).is_err());
}

#[test]
fn a_walk_ends_at_its_limit_and_when_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let layers = layers(folder.path(), &[archive(&[AFile("a", &"x".repeat(5000))])]);
    let mut reader = UncompressedLayer::open(&layers[0].path, &CancellationToken::new(), 1024).unwrap();
    assert!(walk(&mut reader, |_, _| Ok(())).is_err() && reader.over);
    let stop = CancellationToken::new();
    stop.cancel();
    assert!(matches!(look(&layers, None, &stop), Err(FlattenError::Stopped)));
}
