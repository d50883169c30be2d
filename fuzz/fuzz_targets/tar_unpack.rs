//! Unpacks any bytes as a tar archive, as the guest's agent does. Nothing may appear beside the
//! folder. Run: `cargo xtask fuzz tar_unpack`.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

fuzz_target!(|bytes: &[u8]| {
    let above = TempDir::new().expect("a folder");
    let folder = above.path().join("folder");
    fs::create_dir(&folder).expect("make the folder");
    let _ = pandastack_guest::fuzzing::unpack(bytes, &folder);
    let beside = fs::read_dir(above.path()).expect("list").count();
    assert_eq!(beside, 1, "something was put beside the folder");
    // Modes of an archive may keep even its owner out; nothing of it is needed any more.
    let _ = above.close();
});
