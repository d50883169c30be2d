//! Reads a guest's changes to its layer's memory: the private pages of the machine's process. Sends
//! no stream through the monitor, and copies no unchanged memory.

use std::{fs, io, os::unix::fs::FileExt, path::Path};

use pandastack_model::ByteSize;
use pandastack_sys::pagemap::{FileMapping, PageRange, buffer, total};
use pandastack_vmm::{MemoryDelta, MemoryRange, MemoryUse};

/// Buffer size while memory is written directly to a file.
const PASS_BYTES: u64 = 4 * 1024 * 1024;

/// Reports the pages that the guest only read, and the size of its changes.
pub fn usage(pid: u32, base: &Path) -> io::Result<MemoryUse> {
    let touched = FileMapping::of(pid, base)?.touched()?;
    Ok(MemoryUse { read: runs(&touched.read), changed: ByteSize::new(total(&touched.changed)) })
}

fn runs(extents: &[PageRange]) -> Vec<MemoryRange> {
    extents.iter().map(|extent| MemoryRange { offset: extent.offset, length: extent.length }).collect()
}

/// Reads all changed memory, unless it exceeds the maximum.
pub fn hold(pid: u32, base: &Path, mut room: Vec<u8>, bytes_max: ByteSize) -> io::Result<Option<MemoryDelta>> {
    let mapping = FileMapping::of(pid, base)?;
    let changed = mapping.touched()?.changed;
    let size = total(&changed);
    if size > bytes_max.get() {
        return Ok(None);
    }
    if room.len() < size as usize {
        // Free the old buffer first: the memory limit covers only one.
        drop(room);
        room = buffer(size as usize);
    }
    room.truncate(size as usize);
    mapping.read(&changed, &mut room)?;
    Ok(Some(MemoryDelta { runs: runs(&changed), bytes: room }))
}

/// Copies all changed memory over a copy of the layer's file, a few megabytes at a time.
pub fn save(pid: u32, base: &Path, copy: &Path) -> io::Result<ByteSize> {
    let mapping = FileMapping::of(pid, base)?;
    let changed = mapping.touched()?.changed;
    let file = fs::OpenOptions::new().write(true).open(copy)?;
    let mut buffer = vec![0; PASS_BYTES as usize];
    for extent in &changed {
        let end = extent.offset + extent.length;
        let mut offset = extent.offset;
        while offset < end {
            let piece = PageRange { offset, length: PASS_BYTES.min(end - offset) };
            let bytes = &mut buffer[..piece.length as usize];
            mapping.read(&[piece], bytes)?;
            file.write_all_at(bytes, offset)?;
            offset += piece.length;
        }
    }
    Ok(ByteSize::new(total(&changed)))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        process::{Command, Stdio},
    };

    use super::*;

    /// Another process that maps the file privately and changes pages 2, 3 and 6.
    const MAPPER: &str = "
import mmap, sys
file = open(sys.argv[1], 'r+b')
memory = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE)
for page in (2, 3, 6):
    memory[page * 4096] = 120
print('ready', flush=True)
sys.stdin.read()
";

    #[test]
    fn as_much_is_held_as_there_is_leave_for_and_not_a_byte_more() {
        let base = tempfile::NamedTempFile::new().unwrap();
        fs::write(base.path(), vec![b'a'; 8 * 4096]).unwrap();
        let mut mapper = Command::new("python3");
        mapper.args(["-c", MAPPER]).arg(base.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = mapper.spawn().unwrap();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        let changed = 3 * 4096;
        let held = |room: usize, most| hold(child.id(), base.path(), vec![0; room], ByteSize::new(most)).unwrap();
        for room in [0, 4096, changed as usize, 1 << 20] {
            let delta = held(room, changed).expect("there is leave for it");
            assert_eq!((delta.size(), delta.bytes.len() as u64), (ByteSize::new(changed), changed), "room for {room}");
            assert_eq!((delta.bytes[0], delta.bytes[1], delta.bytes[8192]), (b'x', b'a', b'x'));
            assert!(held(room, changed - 1).is_none(), "the room says nothing of the leave");
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
