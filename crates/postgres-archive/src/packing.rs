//! The form that files of the log have in the store: packed with zstd, or as they are. Reads and
//! writes in pieces, because a file may have 64 MiB and many are read at once. Blocks.

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
};

use ruzstd::{
    decoding::StreamingDecoder,
    encoding::{CompressionLevel, compress},
};

use crate::{
    limits::WAL_BYTES_MAX,
    shelf::{StoredForm, WalDigest},
};

/// Finds a file's digest.
pub(crate) fn digest(content: impl Read) -> io::Result<WalDigest> {
    let mut hash = blake3::Hasher::new();
    hash.update_reader(content)?;
    Ok(WalDigest::of(&hash.finalize()))
}

/// Packs a file into an empty one. Returns the one to store: what would not become smaller, or does
/// not unpack to the same bytes, is stored as it is.
pub(crate) fn pack(mut content: File, mut room: File, digest: WalDigest) -> io::Result<(StoredForm, File)> {
    content.rewind()?;
    let bytes = content.metadata()?.len();
    let mut drain = Drain { room: &mut room, left: bytes, refusal: None };
    let mut source = Source { content: &mut content, failure: None };
    // The library has no errors: a defect of it panics.
    let packing = std::panic::AssertUnwindSafe(|| compress(&mut source, &mut drain, CompressionLevel::Fastest));
    let is_packed = std::panic::catch_unwind(packing).is_ok();
    let (failure, refusal) = (source.failure, drain.refusal);
    if let Some(error) = failure {
        return Err(error);
    }
    match refusal {
        Some(Refusal::Failed(error)) => return Err(error),
        None if is_packed => {
            room.rewind()?;
            if unpack(&room, StoredForm::Zstd, digest, &mut io::sink()).is_ok() {
                room.rewind()?;
                return Ok((StoredForm::Zstd, room));
            }
        }
        Some(Refusal::NotSmaller) | None => {}
    }
    content.rewind()?;
    Ok((StoredForm::Raw, content))
}

/// Writes a file as it was before it was stored, and returns its size.
pub(crate) fn unpack(stored: impl Read, form: StoredForm, digest: WalDigest, content: impl Write) -> io::Result<u64> {
    let mut hashed = Hashed { content, hash: blake3::Hasher::new() };
    let bytes = match form {
        StoredForm::Raw => io::copy(&mut stored.take(WAL_BYTES_MAX + 1), &mut hashed)?,
        StoredForm::Zstd => {
            let decoder = StreamingDecoder::new(stored).map_err(|error| io::Error::other(error.to_string()))?;
            io::copy(&mut decoder.take(WAL_BYTES_MAX + 1), &mut hashed)?
        }
    };
    if WalDigest::of(&hashed.hash.finalize()) != digest {
        return Err(io::Error::other("the content has another digest"));
    }
    hashed.content.flush()?;
    Ok(bytes)
}

/// Keeps the first error of a file, which the library would panic about.
struct Source<'a> {
    content: &'a mut File,
    failure: Option<io::Error>,
}

impl Read for &mut Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.content.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.read(buffer),
            Err(error) => {
                self.failure.get_or_insert(error);
                Ok(0)
            }
            read => read,
        }
    }
}

/// Takes the packed bytes, as long as they are fewer than those of the content.
struct Drain<'a> {
    room: &'a mut File,
    left: u64,
    refusal: Option<Refusal>,
}

enum Refusal {
    NotSmaller,
    Failed(io::Error),
}

impl Write for &mut Drain<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len() as u64;
        if self.refusal.is_some() {
        } else if count >= self.left {
            self.refusal = Some(Refusal::NotSmaller);
        } else if let Err(error) = self.room.write_all(bytes) {
            self.refusal = Some(Refusal::Failed(error));
        } else {
            self.left -= count;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Hashed<W> {
    content: W,
    hash: blake3::Hasher,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.content.write(bytes)?;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.content.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file
    }

    #[test]
    fn packing_is_undone_exactly() {
        let noise: Vec<u8> =
            (0..300_000u32).flat_map(|i| blake3::hash(&i.to_le_bytes()).as_bytes()[..8].to_vec()).collect();
        for (content, expected) in [
            (Vec::new(), StoredForm::Raw),
            (vec![0; 16 << 20], StoredForm::Zstd),
            (noise, StoredForm::Raw),
            (b"1\t0/2000000\tx\n".to_vec(), StoredForm::Raw),
            (b"1\t0/2000000\tx\n".repeat(100), StoredForm::Zstd),
        ] {
            let digest = digest(content.as_slice()).unwrap();
            let (form, stored) = pack(file(&content), tempfile::tempfile().unwrap(), digest).unwrap();
            assert_eq!(form, expected, "{} bytes", content.len());
            assert!(stored.metadata().unwrap().len() <= content.len() as u64);
            let mut unpacked = Vec::new();
            assert_eq!(unpack(stored, form, digest, &mut unpacked).unwrap(), content.len() as u64);
            assert!(unpacked == content);
        }
    }

    #[test]
    fn what_is_not_as_it_was_written_is_refused() {
        let content = b"1\t0/2000000\tx\n".repeat(100);
        let right = digest(content.as_slice()).unwrap();
        let (form, mut stored) = pack(file(&content), tempfile::tempfile().unwrap(), right).unwrap();
        let mut packed = Vec::new();
        stored.read_to_end(&mut packed).unwrap();
        for at in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x10;
            let mut unpacked = Vec::new();
            // A header may change without any effect on the content.
            if unpack(damaged.as_slice(), form, right, &mut unpacked).is_ok() {
                assert!(unpacked == content, "byte {at}");
            }
            assert!(unpack(&packed[..at], form, right, io::sink()).is_err(), "cut at {at}");
        }
        assert!(unpack(packed.as_slice(), StoredForm::Raw, right, io::sink()).is_err());
    }

    #[test]
    fn a_disk_that_takes_nothing_is_an_error() {
        let content = vec![0; 1 << 20];
        let right = digest(content.as_slice()).unwrap();
        let full = File::options().read(true).write(true).open("/dev/full").unwrap();
        assert!(pack(file(&content), full, right).is_err());
    }
}
