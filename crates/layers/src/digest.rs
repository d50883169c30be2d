//! Content digests of large sparse files. Blocks of zeros are skipped, so a file and its sparse
//! copy have the same digest.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use pandastack_sys::reflink::data_extents;

/// Granularity at which zeros are skipped. It defines the digest: a change changes every digest.
const BLOCK_BYTES: usize = 64 * 1024;

/// A file could not be read completely.
#[derive(Debug, thiserror::Error)]
#[error("compute the digest of {path}")]
pub struct DigestError {
    path: PathBuf,
    #[source]
    cause: io::Error,
}

/// Computes the digest of a file from its length and each block that is not all zeros, with its
/// offset.
pub fn file_digest(path: &Path) -> Result<String, DigestError> {
    digest_of(path).map_err(|cause| DigestError { path: path.to_owned(), cause })
}

fn digest_of(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&length.to_le_bytes());
    let mut block = vec![0; BLOCK_BYTES];
    let mut next = 0;
    for (start, end) in data_extents(&file, length)? {
        let mut at = (start - start % BLOCK_BYTES as u64).max(next);
        while at < end {
            let size = BLOCK_BYTES.min((length - at) as usize);
            file.read_exact_at(&mut block[..size], at)?;
            if block[..size].iter().any(|byte| *byte != 0) {
                hasher.update(&at.to_le_bytes());
                hasher.update(&block[..size]);
            }
            at += BLOCK_BYTES as u64;
        }
        next = at;
    }
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_and_written_zeros_are_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let (sparse, full) = (folder.path().join("sparse"), folder.path().join("full"));
        let mut bytes = vec![0u8; 1_000_003];
        bytes[700_000] = 7;
        std::fs::write(&full, &bytes).unwrap();
        let file = File::create(&sparse).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        file.write_all_at(&[7], 700_000).unwrap();
        assert_eq!(file_digest(&sparse).unwrap(), file_digest(&full).unwrap());
        bytes[3] = 1;
        std::fs::write(&full, &bytes).unwrap();
        assert_ne!(file_digest(&sparse).unwrap(), file_digest(&full).unwrap());
    }
}
