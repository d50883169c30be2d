//! Reads a guest's changes to its layer's memory: the private pages of the machine's process. Sends
//! no stream through the monitor, and copies no unchanged memory.

use std::{
    fs, io,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use pandastack_model::ByteSize;
use pandastack_sys::{
    pagemap::{FileMapping, PageRange, buffer, total},
    written::WrittenPages,
};
use pandastack_vmm::{AheadCopy, MemoryDelta, MemoryPart, MemoryRange, MemoryUse};

/// Buffer size while memory is written directly to a file.
const PASS_BYTES: u64 = 4 * 1024 * 1024;

/// Passes over the memory of a running guest, at most.
const PASSES_MAX: usize = 6;

/// So little that the guest is paused for it.
const REST_BYTES: u64 = 2 * 1024 * 1024;

/// Reports the pages that the guest only read, and the size of its changes.
pub fn usage(pid: u32, base: &Path) -> io::Result<MemoryUse> {
    let touched = FileMapping::of(pid, base)?.touched()?;
    Ok(MemoryUse { read: runs(&touched.read), changed: ByteSize::new(total(&touched.changed)) })
}

fn runs(extents: &[PageRange]) -> Vec<MemoryRange> {
    extents.iter().map(|extent| MemoryRange { offset: extent.offset, length: extent.length }).collect()
}

/// Reads changed memory, unless it exceeds the maximum.
pub fn hold(
    pid: u32,
    base: &Path,
    part: &MemoryPart,
    mut room: Vec<u8>,
    bytes_max: ByteSize,
) -> io::Result<Option<MemoryDelta>> {
    let mapping = FileMapping::of(pid, base)?;
    let wanted = ranges(&mapping, part)?;
    let size = total(&wanted);
    if size > bytes_max.get() {
        return Ok(None);
    }
    if room.len() < size as usize {
        // Free the old buffer first: the memory limit covers only one.
        drop(room);
        room = buffer(size as usize);
    }
    room.truncate(size as usize);
    mapping.read(&wanted, &mut room)?;
    Ok(Some(MemoryDelta { runs: runs(&wanted), bytes: room }))
}

/// Copies changed memory over a copy of the layer's file, a few megabytes at a time.
pub fn save(pid: u32, base: &Path, part: &MemoryPart, copy: &Path) -> io::Result<ByteSize> {
    let mapping = FileMapping::of(pid, base)?;
    let wanted = ranges(&mapping, part)?;
    write_over(&mapping, &wanted, &fs::OpenOptions::new().write(true).open(copy)?)?;
    Ok(ByteSize::new(total(&wanted)))
}

fn ranges(mapping: &FileMapping, part: &MemoryPart) -> io::Result<Vec<PageRange>> {
    Ok(match part {
        MemoryPart::Changed => mapping.touched()?.changed,
        MemoryPart::Ranges(runs) => {
            runs.iter().map(|run| PageRange { offset: run.offset, length: run.length }).collect()
        }
    })
}

fn write_over(mapping: &FileMapping, wanted: &[PageRange], file: &fs::File) -> io::Result<()> {
    let mut buffer = vec![0; PASS_BYTES as usize];
    for pass in passes(wanted) {
        let bytes = &mut buffer[..total(&pass) as usize];
        mapping.read(&pass, bytes)?;
        let mut rest = &bytes[..];
        for piece in pass {
            let (now, later) = rest.split_at(piece.length as usize);
            file.write_all_at(now, piece.offset)?;
            rest = later;
        }
    }
    Ok(())
}

/// Groups ranges so that each group fits the buffer.
fn passes(wanted: &[PageRange]) -> impl Iterator<Item = Vec<PageRange>> {
    let mut rest = wanted.iter().copied();
    let mut next = rest.next();
    std::iter::from_fn(move || {
        let (mut pass, mut room) = (Vec::new(), PASS_BYTES);
        while room > 0
            && let Some(range) = next
        {
            let length = range.length.min(room);
            pass.push(PageRange { offset: range.offset, length });
            room -= length;
            let left = PageRange { offset: range.offset + length, length: range.length - length };
            next = if left.length > 0 { Some(left) } else { rest.next() };
        }
        (!pass.is_empty()).then_some(pass)
    })
}

/// Copies a running guest's changes. `None` if the host's kernel cannot tell what is written
/// meanwhile.
pub fn copy_ahead(pid: u32, base: &Path, copy: &Path) -> io::Result<Option<QemuAheadCopy>> {
    let mapping = FileMapping::of(pid, base)?;
    let copied = WrittenPages::watch(mapping).and_then(|written| {
        let ahead = QemuAheadCopy { mapping, written, rest: Mutex::default() };
        // After the watch has begun: a page that is changed first in between would be in neither.
        ahead.copy(mapping.touched()?.changed, copy)?;
        Ok(ahead)
    });
    let copied = copied.inspect_err(|error| tracing::debug!(%error, "memory is copied while its machine is paused"));
    Ok(copied.ok())
}

/// A copy of a running guest's changes.
pub struct QemuAheadCopy {
    mapping: FileMapping,
    written: WrittenPages,
    /// Written while the last pass was copied.
    rest: Mutex<Vec<PageRange>>,
}

impl QemuAheadCopy {
    /// Copies ranges, then what was written meanwhile, until little is left.
    fn copy(&self, mut pass: Vec<PageRange>, copy: &Path) -> io::Result<()> {
        let file = fs::OpenOptions::new().write(true).open(copy)?;
        for _ in 0..PASSES_MAX {
            write_over(&self.mapping, &pass, &file)?;
            let before = total(&pass);
            pass = self.written.take()?;
            // The second: the guest writes about as fast as it is copied.
            if total(&pass) <= REST_BYTES || total(&pass) > before / 2 {
                break;
            }
        }
        *self.rest() = pass;
        Ok(())
    }

    fn rest(&self) -> MutexGuard<'_, Vec<PageRange>> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AheadCopy for QemuAheadCopy {
    fn rest(&self) -> ByteSize {
        ByteSize::new(total(&self.rest()))
    }

    fn written(&self) -> io::Result<Vec<MemoryRange>> {
        let rest = std::mem::take(&mut *self.rest());
        Ok(runs(&union(rest, self.written.take()?)))
    }

    fn copy_again(&self, copy: &Path) -> io::Result<()> {
        self.copy(self.written.take()?, copy)
    }
}

/// Merges two lists of ranges.
fn union(mut one: Vec<PageRange>, other: Vec<PageRange>) -> Vec<PageRange> {
    one.extend(other);
    one.sort_unstable_by_key(|range| range.offset);
    let mut merged: Vec<PageRange> = Vec::with_capacity(one.len());
    for range in one {
        match merged.last_mut() {
            Some(last) if last.offset + last.length >= range.offset => {
                last.length = last.length.max(range.offset + range.length - last.offset);
            }
            _ => merged.push(range),
        }
    }
    merged
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
        let held = |room: usize, most| {
            hold(child.id(), base.path(), &MemoryPart::Changed, vec![0; room], ByteSize::new(most)).unwrap()
        };
        for room in [0, 4096, changed as usize, 1 << 20] {
            let delta = held(room, changed).expect("there is leave for it");
            assert_eq!((delta.size(), delta.bytes.len() as u64), (ByteSize::new(changed), changed), "room for {room}");
            assert_eq!((delta.bytes[0], delta.bytes[1], delta.bytes[8192]), (b'x', b'a', b'x'));
            assert!(held(room, changed - 1).is_none(), "the room says nothing of the leave");
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn groups_fit_the_buffer_and_miss_nothing() {
        let page = |offset: u64, length: u64| PageRange { offset: offset << 12, length: length << 12 };
        let wanted = [page(0, 1), page(7, 3000), page(4000, 1), page(5000, 24)];
        let passes: Vec<Vec<PageRange>> = passes(&wanted).collect();
        assert!(passes.iter().all(|pass| total(pass) <= PASS_BYTES) && passes.len() == 3, "{passes:?}");
        assert_eq!(union(passes.concat(), Vec::new()), wanted);
        assert_eq!(super::passes(&[]).count(), 0);
    }

    #[test]
    fn ranges_that_overlap_are_merged() {
        let range = |offset, length| PageRange { offset, length };
        let merged =
            union(vec![range(0, 10), range(30, 5)], vec![range(5, 10), range(15, 1), range(40, 1), range(31, 2)]);
        assert_eq!(merged, [range(0, 16), range(30, 5), range(40, 1)]);
    }
}
