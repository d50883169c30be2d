//! Layers packed by the zstd program, and frames that request too much or end too soon.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use super::*;

/// Packs with the zstd program.
fn zstd(bytes: &[u8], flags: &[&str]) -> Vec<u8> {
    let mut command = Command::new("zstd");
    command.args(["-q", "-c"]).args(flags).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("zstd; scripts/setup installs it");
    let (mut to, bytes) = (child.stdin.take().unwrap(), bytes.to_vec());
    let feeding = std::thread::spawn(move || to.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap().unwrap();
    assert!(output.status.success());
    output.stdout
}

fn unpacked(packed: &[u8]) -> Result<Vec<u8>, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), packed).unwrap();
    let mut reader =
        UncompressedLayer::open(file.path(), &CancellationToken::new(), 64 << 20).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    assert_eq!(reader.bytes, bytes.len() as u64);
    Ok(bytes)
}

/// Bytes of average compressibility.
fn some_bytes(count: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let step = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8 & 0x1f
    };
    (0..count).map(step).collect()
}

/// A skippable frame.
fn skipped(length: u32, bytes: &[u8]) -> Vec<u8> {
    [&[0x53, 0x2a, 0x4d, 0x18][..], &length.to_le_bytes(), bytes].concat()
}

#[test]
fn what_the_program_packs_comes_out_again() {
    let whole = some_bytes(3 << 20);
    for flags in [&["-1"][..], &["-3", "--no-check"], &["-19"], &["--long=27"], &["--ultra", "-22"]] {
        assert!(unpacked(&zstd(&whole, flags)).unwrap() == whole, "{flags:?}");
    }
    assert_eq!(unpacked(&zstd(b"", &[])).unwrap(), b"");
}

#[test]
fn frames_follow_each_other_and_some_are_for_others() {
    let (first, second) = (zstd(b"one", &[]), zstd(b"two", &[]));
    let all = [skipped(3, b"abc"), first, skipped(0, b""), second, skipped(1, b"x")].concat();
    assert_eq!(unpacked(&all).unwrap(), b"onetwo");
    let cut = [zstd(b"one", &[]), skipped(9, b"short")].concat();
    assert_eq!(unpacked(&cut).unwrap_err(), "zstd: the data ends in the middle of a frame");
}

#[test]
fn a_frame_that_wants_too_much_memory_is_refused() {
    // Its head declares no checksum, no size and a window of 2 GiB; or one segment of 1 TiB.
    let window = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00];
    let piece = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &(1_u64 << 40).to_le_bytes(), &[0x01, 0x00, 0x00]].concat();
    for frame in [&window[..], &piece] {
        let refused = unpacked(frame).unwrap_err();
        assert!(refused.contains("bytes of memory"), "{refused}");
    }
    let long = zstd(&some_bytes(1 << 20), &["--long=31"]);
    assert!(unpacked(&long).unwrap_err().contains("2147483648 bytes of memory"));
}

#[test]
fn what_ends_too_soon_or_is_spoiled_is_refused() {
    let packed = zstd(&some_bytes(300_000), &[]);
    for length in [5, 6, 9, 100, packed.len() / 2, packed.len() - 5, packed.len() - 1] {
        let refused = unpacked(&packed[..length]).unwrap_err();
        assert!(refused.starts_with("zstd: "), "{length}: {refused}");
    }
    assert!(unpacked(&[&packed[..], b"no frame"].concat()).unwrap_err().starts_with("zstd: "));
    let dictionary = [0x28, 0xb5, 0x2f, 0xfd, 0x01, 0x58, 0x07, 0x01, 0x00, 0x00];
    assert!(unpacked(&dictionary).unwrap_err().starts_with("zstd: "));
    // A reserved block type.
    assert!(unpacked(&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x07, 0x00, 0x00]).unwrap_err().starts_with("zstd: "));
}

#[test]
fn a_small_frame_that_becomes_large_ends_at_the_limit() {
    let packed = zstd(&vec![0; 65 << 20], &[]);
    assert!(packed.len() < 64 * 1024);
    assert_eq!(unpacked(&packed).unwrap_err(), "the unpacked size exceeds the limit");
}

#[test]
fn blocks_without_anything_in_them_are_left_when_told_to() {
    // One frame of a million empty blocks, none of them the last.
    let packed = [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58][..], &[0; 3_000_000]].concat();
    let stop = CancellationToken::new();
    let mut reader = Zstd::new(&packed[..], stop.clone());
    stop.cancel();
    assert_eq!(reader.read(&mut [0; 1]).unwrap_err().to_string(), "stopped");
    assert!(unpacked(&packed).unwrap_err().starts_with("zstd: "));
}
