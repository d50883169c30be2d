//! Size of an ext4 file system, read from its superblock. The size that the kernel reports for a
//! mount excludes the file system's overhead. The kernel also refuses to grow a file system that
//! has seen an error, even if there is nothing to grow.

use std::{fs::File, io, os::unix::fs::FileExt};

/// Offset of the superblock.
const SUPERBLOCK: u64 = 1024;

/// Bytes of the superblock that are read.
const LOOKED_AT: usize = 0x154;

const MAGIC: u16 = 0xEF53;

/// Size of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ext4Size {
    pub blocks: u64,
    pub block_bytes: u64,
}

/// Reads a disk's superblock; `None` if it is not ext4.
pub(super) fn extent(disk: &File) -> io::Result<Option<Ext4Size>> {
    let mut bytes = [0; LOOKED_AT];
    disk.read_exact_at(&mut bytes, SUPERBLOCK)?;
    Ok(parse(&bytes))
}

fn parse(bytes: &[u8; LOOKED_AT]) -> Option<Ext4Size> {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if u16::from_le_bytes([bytes[0x38], bytes[0x39]]) != MAGIC {
        return None;
    }
    let is_64bit = word(0x60) & 0x80 != 0;
    let high = if is_64bit { u64::from(word(0x150)) << 32 } else { 0 };
    let block_bytes = 1024_u64.checked_shl(word(0x18)).filter(|bytes| (1024..=64 * 1024).contains(bytes))?;
    Some(Ext4Size { blocks: high | u64::from(word(0x04)), block_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_file_systems_size_is_read_and_others_are_let_be() {
        let path = std::env::temp_dir().join(format!("pandastack-ext4-{}", std::process::id()));
        let disk = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        disk.set_len(16 << 20).unwrap();
        assert_eq!(extent(&disk).unwrap(), None);
        let made = Command::new("/sbin/mkfs.ext4").args(["-q", "-b", "4096"]).arg(&path).arg("8M").status().unwrap();
        assert!(made.success());
        assert_eq!(extent(&disk).unwrap(), Some(Ext4Size { blocks: 2048, block_bytes: 4096 }));
        // An invalid block size, as an owner with root may write it.
        disk.write_all_at(&[0xff; 4], SUPERBLOCK + 0x18).unwrap();
        assert_eq!(extent(&disk).unwrap(), None);
        disk.set_len(1024).unwrap();
        assert!(extent(&disk).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
