//! The files of the dashboard, packed by the build script.

use std::io::Read as _;

use flate2::read::GzDecoder;

/// A file of the dashboard.
#[derive(Clone, Copy)]
pub struct PackedFile {
    /// The path below the root, without a slash in front.
    pub path: &'static str,
    pub kind: &'static str,
    /// A digest of the content.
    pub tag: &'static str,
    /// The content, compressed with gzip.
    pub packed: &'static [u8],
}

impl PackedFile {
    /// Returns the content.
    pub fn unpack(&self) -> Vec<u8> {
        let mut content = Vec::new();
        // Our own build packed it, so that it can be unpacked.
        let read = GzDecoder::new(self.packed).read_to_end(&mut content);
        debug_assert!(read.is_ok(), "{}", self.path);
        content
    }
}

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Returns every file, by path.
pub fn all() -> &'static [PackedFile] {
    FILES
}
