//! Tests the store on a plain folder: make, keep, grow, remove, and recover from a killed process.

use std::os::unix::fs::MetadataExt;

use super::*;

fn store() -> (tempfile::TempDir, VolumeStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = VolumeStore::open(folder.path()).unwrap();
    (folder, store)
}

/// Reads a number from a line of `dumpe2fs -h`.
fn figure(file: &Path, name: &str) -> u64 {
    let output = Command::new("dumpe2fs").arg("-h").arg(file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_new_volume_is_an_empty_ext4_that_takes_little_room() {
    let (_folder, store) = store();
    for size in [VOLUME_BYTES_MIN, ByteSize::mib(256), ByteSize::gib(10), VOLUME_BYTES_MAX] {
        let volume = VolumeId::random();
        assert_eq!(store.make(volume, size).unwrap(), size);
        let file = store.file(volume);
        let meta = fs::metadata(&file).unwrap();
        assert_eq!(meta.len(), size.get());
        assert!(meta.blocks() * 512 < 32 << 20, "{size}: {} bytes on disk", meta.blocks() * 512);
        assert_eq!((figure(&file, "Block count:"), figure(&file, "Block size:")), (size.get() / 4096, 4096));
        assert_eq!(store.condition(volume).unwrap(), VolumeCondition::Whole);
        let checked = Command::new("e2fsck").args(["-fn"]).arg(&file).output().unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    }
}

#[test]
fn making_twice_answers_the_same_and_keeps_the_data() {
    let (_folder, store) = store();
    let volume = VolumeId::random();
    store.make(volume, ByteSize::new(VOLUME_BYTES_MIN.get() - 5)).unwrap();
    let mark = OpenOptions::new().write(true).open(store.file(volume)).unwrap();
    mark.write_all_at(b"kept", 8 << 20).unwrap();
    assert_eq!(store.make(volume, VOLUME_BYTES_MIN).unwrap(), VOLUME_BYTES_MIN);
    let mut bytes = [0; 4];
    File::open(store.file(volume)).unwrap().read_exact_at(&mut bytes, 8 << 20).unwrap();
    assert_eq!(&bytes, b"kept");
    let other = store.make(volume, ByteSize::mib(32));
    assert!(matches!(other, Err(VolumeStoreError::OtherSize { .. })), "{other:?}");
}

#[test]
fn a_volume_grows_and_never_shrinks() {
    let (_folder, store) = store();
    let volume = VolumeId::random();
    store.make(volume, ByteSize::mib(16)).unwrap();
    for _ in 0..2 {
        assert_eq!(store.grow(volume, ByteSize::mib(64)).unwrap(), ByteSize::mib(64));
        assert_eq!(store.list(), [(volume, ByteSize::mib(64))]);
    }
    assert!(matches!(store.grow(volume, ByteSize::mib(63)), Err(VolumeStoreError::Shrink { .. })));
    assert!(matches!(store.grow(VolumeId::random(), ByteSize::mib(63)), Err(VolumeStoreError::Missing { .. })));
}

#[test]
fn a_removed_volume_is_gone_and_removing_it_again_is_fine() {
    let (folder, store) = store();
    let (volume, other) = (VolumeId::random(), VolumeId::random());
    store.make(volume, VOLUME_BYTES_MIN).unwrap();
    store.make(other, VOLUME_BYTES_MIN).unwrap();
    for _ in 0..2 {
        store.remove(volume).unwrap();
        assert_eq!(store.list(), [(other, VOLUME_BYTES_MIN)]);
    }
    assert_eq!(fs::read_dir(folder.path().join("volumes")).unwrap().count(), 1);
}

#[test]
fn what_a_killed_process_left_half_made_is_thrown_away() {
    let (folder, store) = store();
    let volume = VolumeId::random();
    store.make(volume, VOLUME_BYTES_MIN).unwrap();
    for name in ["making", "going"] {
        let half = folder.path().join(format!("volumes/{name}-{}", VolumeId::random()));
        fs::create_dir(&half).unwrap();
        fs::write(half.join("disk"), b"half").unwrap();
    }
    store.clear_drafts();
    assert_eq!(fs::read_dir(folder.path().join("volumes")).unwrap().count(), 1);
    assert_eq!(store.list(), [(volume, VOLUME_BYTES_MIN)]);
}

#[test]
fn an_unfinished_journal_is_noticed() {
    let (_folder, store) = store();
    let volume = VolumeId::random();
    store.make(volume, VOLUME_BYTES_MIN).unwrap();
    let debugfs = ["-w", "-R", "feature needs_recovery"];
    assert!(Command::new("debugfs").args(debugfs).arg(store.file(volume)).output().unwrap().status.success());
    assert_eq!(store.condition(volume).unwrap(), VolumeCondition::Unfinished);
}

#[test]
fn a_volume_from_an_image_has_its_content_and_never_replaces_another() {
    let (folder, store) = store();
    let (source, clone) = (VolumeId::random(), VolumeId::random());
    store.make(source, VOLUME_BYTES_MIN).unwrap();
    let image = folder.path().join("image");
    fs::copy(store.file(source), &image).unwrap();
    store.make_from(clone, &image).unwrap();
    assert_eq!(fs::read(store.file(clone)).unwrap(), fs::read(&image).unwrap());
    assert_eq!(store.size(clone).unwrap(), VOLUME_BYTES_MIN);
    let again = store.make_from(source, &image).unwrap_err();
    assert!(matches!(again, VolumeStoreError::Exists { volume, .. } if volume == source), "{again}");
    store.make_from(VolumeId::random(), &folder.path().join("missing")).unwrap_err();
    assert_eq!(store.list().len(), 2, "nothing is left of a failure");
}
