//! Reads any bytes as the documents of an image, and as layers that are put over each other, chosen
//! from and written as one archive. Run: `cargo xtask fuzz image`.
#![no_main]

use std::{cell::RefCell, fs};

use libfuzzer_sys::fuzz_target;
use pandastack_image::{
    ImageReference,
    flatten::{self, FetchedLayer, FlattenedImage},
    manifest,
    pick::pick,
    reference::ImageDigest,
};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

thread_local! {
    static FOLDER: RefCell<TempDir> = RefCell::new(TempDir::new().expect("a folder"));
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(reference) = ImageReference::parse(text, Some("docker.io")) {
            let again = ImageReference::parse(&reference.to_string(), None).expect("our own form parses");
            assert_eq!(again, reference);
        }
        let _ = manifest::document(bytes);
        let _ = manifest::config(bytes, 1);
    }
    // The first byte says where one layer ends and the next begins, in blocks.
    let Some((cut, bytes)) = bytes.split_first() else { return };
    let (first, second) = bytes.split_at((usize::from(*cut) * 512).min(bytes.len()));
    FOLDER.with_borrow(|folder| layers(folder, &[first, second]));
});

fn layers(folder: &TempDir, contents: &[&[u8]]) {
    let put = |(number, bytes): (usize, &&[u8])| {
        let path = folder.path().join(number.to_string());
        fs::write(&path, bytes).expect("write a layer");
        // Right for layers that are not packed; others are read to their end and then refused.
        FetchedLayer { path, unpacked: ImageDigest::of(&Sha256::digest(bytes)) }
    };
    let layers: Vec<FetchedLayer> = contents.iter().enumerate().map(put).collect();
    let stop = CancellationToken::new();
    let Ok(FlattenedImage { tree, .. }) = flatten::look(&layers, Some("/work"), &stop) else { return };
    let listing = tree.list();
    for entry in 0..listing.entries().len() {
        let path = listing.path(entry);
        assert!(path.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b"..")), "{path:?}");
    }
    let mut archive = Vec::new();
    flatten::write(&listing, &layers, &mut archive, &stop).expect("what was read is written");
    if let Ok(picked) = pick(&tree, &["/".to_owned(), "/*".to_owned()]) {
        flatten::write(&picked.listing, &layers, &mut Vec::new(), &stop).expect("what was picked is written");
    }
}
