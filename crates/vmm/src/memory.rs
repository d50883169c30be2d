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

/// The memory that a seal reads from a paused machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryPart {
    /// Everything that the guest has changed since its layer was sealed.
    Changed,
    /// These ranges. The rest of the changes is in the copy already.
    Ranges(Vec<MemoryRange>),
}

/// A guest's changes, copied while it ran. What it wrote meanwhile is old in the copy. The guest's
/// writes are noted until this is dropped, which takes a moment.
pub trait AheadCopy: Send + Sync {
    /// Size of what was written during the last pass and is old in the copy.
    fn rest(&self) -> ByteSize;

    /// Returns what is old in the copy. Call it once for each copy, when the machine is paused.
    fn written(&self) -> io::Result<Vec<MemoryRange>>;

    /// Begins the next copy, in a file that has all memory of the last call of `written`.
    fn copy_again(&self, copy: &Path) -> io::Result<()>;
}

/// Memory that was read from a paused machine. `bytes` holds the contents of all runs in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryDelta {
    pub runs: Vec<MemoryRange>,
    pub bytes: Vec<u8>,
}

impl MemoryDelta {
    /// Size of all runs.
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
