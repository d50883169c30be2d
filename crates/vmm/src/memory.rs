//! Guest memory that was read from a paused machine and is not yet in a file.

use std::{fs, io, os::unix::fs::FileExt, path::Path};

use pandastack_model::ByteSize;

/// One range of the memory file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// Offset in the memory file.
    pub offset: u64,
    pub length: u64,
}

/// How a guest has used its memory so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Ranges that were only read. A restore of its layer needs these first.
    pub read: Vec<MemoryRange>,
    /// Size of the changed memory.
    pub changed: ByteSize,
}

/// All memory that a guest has changed since its layer was sealed. `bytes` holds the contents of
/// all runs in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryDelta {
    pub runs: Vec<MemoryRange>,
    pub bytes: Vec<u8>,
}

impl MemoryDelta {
    /// Size of all changed memory.
    pub fn size(&self) -> ByteSize {
        ByteSize::new(self.bytes.len() as u64)
    }

    /// Writes every run over a copy of the layer's memory file.
    pub fn write_over(&self, copy: &Path) -> io::Result<()> {
        let file = fs::OpenOptions::new().write(true).open(copy)?;
        let mut bytes = &self.bytes[..];
        for run in &self.runs {
            let (piece, rest) = bytes.split_at(run.length as usize);
            file.write_all_at(piece, run.offset)?;
            bytes = rest;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_land_where_they_belong() {
        let file = std::env::temp_dir().join(format!("pandastack-delta-{}", std::process::id()));
        fs::write(&file, b"aaaaaaaaaa").unwrap();
        let runs = vec![MemoryRange { offset: 1, length: 2 }, MemoryRange { offset: 7, length: 3 }];
        MemoryDelta { runs, bytes: b"bbccc".to_vec() }.write_over(&file).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"abbaaaaccc");
        fs::remove_file(&file).unwrap();
    }
}
