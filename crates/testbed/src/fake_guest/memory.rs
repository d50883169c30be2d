//! A fake guest's memory as bytes, for layers: a mark, the expected secret, then its files, each
//! part after its length.

use std::collections::BTreeMap;

/// Distinguishes sealed memory from the zeros of a template.
const MARK: &[u8] = b"fake memory 1\n";

type Files = BTreeMap<String, Vec<u8>>;

pub(super) fn write(secret: &[u8], files: &Files) -> Vec<u8> {
    let mut bytes = MARK.to_vec();
    let mut piece = |piece: &[u8]| {
        bytes.extend_from_slice(&(piece.len() as u64).to_le_bytes());
        bytes.extend_from_slice(piece);
    };
    piece(secret);
    piece(&(files.len() as u64).to_le_bytes());
    for (path, contents) in files {
        piece(path.as_bytes());
        piece(contents);
    }
    bytes
}

/// Reads the memory. Bytes after the last part belong to an older, longer memory and are ignored.
pub(super) fn read(bytes: &[u8]) -> Option<(Vec<u8>, Files)> {
    let mut rest = bytes.strip_prefix(MARK)?;
    let mut piece = || {
        let (length, after) = rest.split_first_chunk::<8>()?;
        let (piece, after) = after.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        rest = after;
        Some(piece.to_vec())
    };
    let secret = piece()?;
    let count = u64::from_le_bytes(piece()?.try_into().ok()?);
    let files = (0..count).map(|_| Some((String::from_utf8(piece()?).ok()?, piece()?))).collect::<Option<_>>()?;
    Some((secret, files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_and_zeros_are_none() {
        let files = BTreeMap::from([("/a".to_owned(), b"one".to_vec()), ("/b".to_owned(), Vec::new())]);
        let mut bytes = write(b"secret", &files);
        bytes.extend_from_slice(b"left over");
        assert_eq!(read(&bytes), Some((b"secret".to_vec(), files)));
        assert_eq!(read(&[0; 64]), None);
        assert_eq!(read(&bytes[..MARK.len() + 12]), None);
    }
}
