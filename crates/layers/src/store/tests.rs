//! Tests the store on a real folder: seal, open, name, collect.

use super::*;

fn store() -> (tempfile::TempDir, LayerStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = LayerStore::open(folder.path()).unwrap();
    (folder, store)
}

fn sealed(store: &LayerStore) -> LayerId {
    let draft = store.draft().unwrap();
    fs::write(draft.files().mem, b"memory").unwrap();
    fs::write(draft.files().disk, b"disk").unwrap();
    fs::write(draft.files().dev, b"devices").unwrap();
    let manifest = Manifest::parse(include_bytes!("../../../../schema/layer-manifest-1.json")).unwrap();
    draft.seal(manifest).unwrap()
}

#[test]
fn a_sealed_layer_opens_and_gives_disks() {
    let (_folder, store) = store();
    let id = sealed(&store);
    let layer = store.open_layer(id).unwrap();
    let disk = store.overlay(&layer, "one").unwrap();
    fs::write(&disk, b"mine").unwrap();
    assert_eq!(fs::read(&layer.files.disk).unwrap(), b"disk");
    assert_eq!(store.disks(), ["one"]);
    store.discard("one");
    store.discard("one");
    assert!(store.disks().is_empty());
}

#[test]
fn a_changed_file_is_refused_and_named() {
    let (_folder, store) = store();
    let id = sealed(&store);
    let files = LayerFiles::in_folder(&store.root.join("layers").join(id.to_string()));
    fs::write(&files.mem, b"memorY").unwrap();
    let error = store.open_layer(id).unwrap_err();
    assert!(matches!(error, LayerOpenError::Damaged { file: "mem", .. }), "{error}");
}

#[test]
fn damage_after_a_check_is_noticed_by_the_next_process() {
    let (folder, store) = store();
    let id = sealed(&store);
    store.open_layer(id).unwrap();
    let path = LayerFiles::in_folder(&store.root.join("layers").join(id.to_string())).disk;
    fs::write(&path, b"d1sk").unwrap();
    let next = LayerStore::open(folder.path()).unwrap();
    assert!(matches!(next.open_layer(id), Err(LayerOpenError::Damaged { file: "disk", .. })));
}

#[test]
fn a_copy_is_trusted_as_its_source_was_and_its_own_damage_is_noticed() {
    let (_folder, store) = store();
    let id = sealed(&store);
    let other = tempfile::tempdir().unwrap();
    let place = |root: &Path| root.join("layers").join(id.to_string());
    let copy = |trusted: bool| {
        let _ = fs::remove_dir_all(place(other.path()));
        if !trusted {
            fs::remove_file(place(&store.root).join(VERIFIED)).unwrap();
        }
        copy_layer(&place(&store.root), &place(other.path())).unwrap();
        place(other.path()).join(VERIFIED)
    };
    let mark = fs::read_to_string(copy(true)).unwrap();
    assert_eq!(Some(mark), fingerprint(&LayerFiles::in_folder(&place(other.path()))), "it will not be read again");
    fs::write(place(other.path()).join("mem"), b"m3m").unwrap();
    let opened = LayerStore::open(other.path()).unwrap().open_layer(id);
    assert!(matches!(opened, Err(LayerOpenError::Damaged { file: "mem", .. })));
    assert!(!copy(false).exists(), "nobody has read the source");
    LayerStore::open(other.path()).unwrap().open_layer(id).unwrap();
}

#[test]
fn names_move_and_unnamed_layers_are_collected() {
    let (_folder, store) = store();
    let name: TemplateName = "mini".parse().unwrap();
    assert!(matches!(store.template(&name), Err(LayerOpenError::NoTemplate(_))));
    let (old, new) = (sealed(&store), sealed(&store));
    store.name_template(&name, old).unwrap();
    store.name_template(&name, new).unwrap();
    assert_eq!(store.template(&name).unwrap(), new);
    assert!(store.collect(&HashSet::from([old])).is_empty());
    assert_eq!(store.collect(&HashSet::new()), [old]);
    assert!(matches!(store.open_layer(old), Err(LayerOpenError::Missing { .. })));
}

#[test]
fn a_shared_root_is_kept_once_and_the_next_one_takes_its_place() {
    let (folder, store) = store();
    let disk = folder.path().join("root.ext4");
    let family = |name: &str| name.parse::<TemplateName>().unwrap();
    let keep = |name: &str, digest: &str, text: &str| {
        fs::write(&disk, text).unwrap();
        store.keep_root(&family(name), digest, &disk).unwrap()
    };
    let first = keep("one", "a", "first");
    assert_eq!(
        (keep("one", "a", "not read"), fs::read_to_string(&first).unwrap()),
        (first.clone(), "first".to_owned())
    );
    let other = keep("two", "a", "other");
    let second = keep("one", "b", "second");
    assert!(!first.exists() && other.exists());
    assert_eq!(fs::read_to_string(second).unwrap(), "second");
    assert!(store.keep_root(&family("one"), "c", Path::new("/none")).is_err());
    assert!(store.drafts_before(SystemTime::now() + std::time::Duration::from_secs(60)).is_empty());
}

#[test]
fn a_dropped_draft_leaves_nothing() {
    let (_folder, store) = store();
    let folder = store.draft().unwrap().folder().to_owned();
    assert!(!folder.exists());
}
