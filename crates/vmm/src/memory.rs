//! Guest memory that was read out of a paused machine and is not yet in a file.

use std::{fs, io, os::unix::fs::FileExt, path::Path};

use pandastack_model::Bytes;

/// One piece of changed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where it lies in the memory file.
    pub offset: u64,
    pub length: u64,
}

/// How a guest has used its memory so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Only read: who starts from its layer will need these first.
    pub read: Vec<Run>,
    /// How much it has changed.
    pub changed: Bytes,
}

/// Everything a guest has changed since its layer was sealed. The bytes of all runs follow each
/// other in `bytes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryDelta {
    pub runs: Vec<Run>,
    pub bytes: Vec<u8>,
}

impl MemoryDelta {
    /// How much there is.
    pub fn size(&self) -> Bytes {
        Bytes::new(self.bytes.len() as u64)
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
        let runs = vec![Run { offset: 1, length: 2 }, Run { offset: 7, length: 3 }];
        MemoryDelta { runs, bytes: b"bbccc".to_vec() }.write_over(&file).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"abbaaaaccc");
        fs::remove_file(&file).unwrap();
    }
}
