//! Every fuzz target runs once over its seeds and some generated inputs. So a target that does not
//! build, or that fails at once, fails the tests.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

macro_rules! targets {
    ($($name:literal),*) => { [$(($name, env!(concat!("CARGO_BIN_EXE_", $name)))),*] };
}

const TARGETS: [(&str, &str); 8] = targets![
    "dns_messages",
    "dockerfile",
    "guest_frames",
    "identity",
    "image",
    "preview_names",
    "stripe_webhook",
    "tar_unpack"
];

/// Sizes of the generated inputs.
const SIZES: [usize; 6] = [0, 1, 16, 300, 4096, 65536];

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

/// Bytes that look random and are the same in every run.
fn noise(size: usize) -> Vec<u8> {
    let mut state = size as u64 + 1;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(size).collect()
}

#[test]
fn every_target_accepts_its_seeds_and_any_bytes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources: Vec<_> = files(&folder.join("fuzz_targets"));
    sources.sort();
    let names: Vec<_> = sources.iter().map(|source| source.file_stem().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, TARGETS.map(|(name, _)| name), "a target is missing in this test");
    let scratch = tempfile::tempdir().unwrap();
    for (name, program) in TARGETS {
        let mut inputs = files(&folder.join("seeds").join(name));
        for size in SIZES {
            let path = scratch.path().join(format!("{size}"));
            fs::write(&path, noise(size)).unwrap();
            inputs.push(path);
        }
        let output = Command::new(program).args(&inputs).current_dir(scratch.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {}\n{said}", output.status);
        assert_eq!(said.matches("Executed ").count(), inputs.len(), "{name}:\n{said}");
    }
}
