//! Keeps the consoles of sandboxes, cut to a maximum length. A guest can write to its console and
//! to its machine's log without limit, and both files lie in the host's memory. When a machine
//! goes, the end of its console stays with its sandbox, to be read while that sleeps or has failed.
//!
//! ```text
//! position   start ............ start + kept ............ end
//!            file in the data    the living machine's own
//!            folder              file
//! ```
//!
//! Positions only grow, through cuts, sleeps and wakes: a follower remembers one number.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream::unfold;
use pandastack_model::{Fault, MachineId, SandboxId};
use pandastack_sys::private;
use pandastack_wire_fleet::{ByteStream, ConsoleRange};
use tokio::sync::watch;

use crate::{
    recover::folders,
    sandbox::{HostContext, PublishedState},
};

/// A longer console is cut.
const BYTES_MAX: u64 = 1024 * 1024;

/// Bytes left after a cut, from the end; also what is saved of a machine that is gone.
const BYTES_KEPT: u64 = 256 * 1024;

/// Interval of the cuts. An emulated serial line carries some megabytes in this time.
const LOOK: Duration = Duration::from_secs(2);

/// Maximum of one read: more than a console gains between two cuts.
const READ_BYTES_MAX: u64 = 16 * BYTES_MAX;

/// Poll interval of a follower.
const FOLLOW_LOOK: Duration = Duration::from_millis(250);

/// The consoles of all sandboxes here.
pub struct Consoles {
    run_root: PathBuf,
    /// Saved consoles of machines that are gone, one file for each sandbox.
    folder: PathBuf,
    streams: Mutex<HashMap<SandboxId, SandboxConsole>>,
}

/// The console of one sandbox.
#[derive(Clone, Debug, Default)]
struct SandboxConsole {
    /// Position of the first byte that is still there.
    start: u64,
    /// Bytes saved from machines that are gone.
    kept: u64,
    live: Option<MachineId>,
}

/// Some bytes of a console and the position after them.
#[derive(Debug, Default, PartialEq, Eq)]
struct ConsolePiece {
    bytes: Vec<u8>,
    next: u64,
}

impl Consoles {
    /// Opens the folder, and removes the consoles of sandboxes that are not in `here`.
    pub fn open(run_root: &Path, volume: &Path, here: &HashSet<SandboxId>) -> io::Result<Self> {
        let folder = volume.join("consoles");
        private::make_folder(&folder)?;
        let mut streams = HashMap::new();
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let owner = entry.file_name().to_str().and_then(|name| name.parse::<SandboxId>().ok());
            match owner.filter(|id| here.contains(id)) {
                Some(id) => drop(
                    streams.insert(id, SandboxConsole { kept: entry.metadata()?.len(), ..SandboxConsole::default() }),
                ),
                None => fs::remove_file(entry.path())?,
            }
        }
        Ok(Self { run_root: run_root.to_owned(), folder, streams: Mutex::new(streams) })
    }

    /// Records the machine of a sandbox.
    pub fn begin(&self, id: SandboxId, machine: MachineId) {
        self.locked().entry(id).or_default().live = Some(machine);
    }

    /// Saves the end of a console whose machine is about to be removed.
    pub fn keep(&self, id: SandboxId) -> io::Result<()> {
        let mut streams = self.locked();
        let Some(stream) = streams.get_mut(&id) else { return Ok(()) };
        let whole = self.after(id, stream, stream.start)?;
        let bytes = end_of(&whole.bytes);
        let fresh = self.folder.join(format!("{id}.new"));
        fs::write(&fresh, bytes)?;
        fs::rename(&fresh, self.file(id))?;
        let length = bytes.len() as u64;
        *stream = SandboxConsole { start: whole.next - length, kept: length, live: None };
        Ok(())
    }

    /// Removes a sandbox's console.
    pub fn forget(&self, id: SandboxId) {
        self.locked().remove(&id);
        let _ = fs::remove_file(self.file(id));
    }

    /// Reads a console from a position. A position that was cut off moves to the first byte left.
    fn read(&self, id: SandboxId, from: u64) -> io::Result<ConsolePiece> {
        let streams = self.locked();
        match streams.get(&id) {
            Some(stream) => self.after(id, stream, from),
            None => Ok(ConsolePiece { bytes: Vec::new(), next: from }),
        }
    }

    fn after(&self, id: SandboxId, stream: &SandboxConsole, from: u64) -> io::Result<ConsolePiece> {
        let skip = from.saturating_sub(stream.start);
        let mut bytes = Vec::new();
        if skip < stream.kept {
            read_from(&self.file(id), skip, &mut bytes)?;
            bytes.truncate((stream.kept - skip) as usize);
        }
        if let Some(machine) = stream.live {
            read_from(&self.console_of(&machine.to_string()), skip.saturating_sub(stream.kept), &mut bytes)?;
        }
        let next = stream.start + skip + bytes.len() as u64;
        Ok(ConsolePiece { bytes, next })
    }

    fn cut_all(&self) {
        for folder in folders(&self.run_root) {
            match self.cut_one(&folder) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => tracing::warn!(%error, folder, "could not truncate a console"),
            }
            // The log of the machine's process. It has no followers.
            match cut(&self.run_root.join(&folder).join("machine.log")) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, folder, "could not truncate a machine log");
                }
                _ => {}
            }
        }
    }

    fn cut_one(&self, folder: &str) -> io::Result<()> {
        // A reader must see file and position both from before the cut, or both from after it.
        let mut streams = self.locked();
        let dropped = cut(&self.console_of(folder))?;
        let owner = streams.iter_mut().find(|(_, stream)| stream.live.is_some_and(|live| live.to_string() == folder));
        if let (Some((id, stream)), true) = (owner, dropped > 0) {
            stream.start += stream.kept + dropped;
            stream.kept = 0;
            let _ = fs::remove_file(self.file(*id));
        }
        Ok(())
    }

    fn console_of(&self, folder: &str) -> PathBuf {
        self.run_root.join(folder).join("console.log")
    }

    fn file(&self, id: SandboxId) -> PathBuf {
        self.folder.join(id.to_string())
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<SandboxId, SandboxConsole>> {
        self.streams.lock().expect("no holder panics")
    }
}

/// Cuts all consoles at an interval until the host closes.
pub async fn keep_short(context: Arc<HostContext>) {
    let token = context.scope.token();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = token.cancelled() => return,
        }
        let consoles = context.consoles.clone();
        let _ = context.scope.block("consoles", move || consoles.cut_all()).await;
    }
}

/// A reader of a console.
struct ConsoleReader {
    context: Arc<HostContext>,
    id: SandboxId,
    /// Closed when the sandbox is gone.
    condition: watch::Receiver<PublishedState>,
    position: u64,
    turn: ReadPhase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadPhase {
    First,
    Later,
    Last,
}

/// Streams a console: its present content and, if asked for, what follows.
pub fn read(
    context: &Arc<HostContext>,
    id: SandboxId,
    condition: watch::Receiver<PublishedState>,
    ask: ConsoleRange,
) -> ByteStream {
    let reader = ConsoleReader { context: context.clone(), id, condition, position: 0, turn: ReadPhase::First };
    Box::pin(unfold(Some(reader), move |reader| async move {
        let mut reader = reader?;
        let piece = reader.next().await?;
        let goes_on = ask == ConsoleRange::Follow && piece.is_ok();
        Some((piece, goes_on.then_some(reader)))
    }))
}

impl ConsoleReader {
    /// Returns the next piece; `None` when nothing more can come.
    async fn next(&mut self) -> Option<Result<Bytes, Fault>> {
        loop {
            let piece = match self.look().await {
                Ok(piece) => piece,
                Err(fault) => return Some(Err(fault)),
            };
            self.position = piece.next;
            let first = self.turn == ReadPhase::First;
            if first {
                self.turn = ReadPhase::Later;
            }
            if first || !piece.bytes.is_empty() {
                return Some(Ok(Bytes::from(piece.bytes)));
            }
            if self.turn == ReadPhase::Last {
                return None;
            }
            self.wait().await;
        }
    }

    async fn look(&self) -> Result<ConsolePiece, Fault> {
        let (consoles, id, from) = (self.context.consoles.clone(), self.id, self.position);
        let read = self.context.scope.block("read console", move || consoles.read(id, from)).await;
        read.map_err(Fault::bug)?.map_err(Fault::bug)
    }

    async fn wait(&mut self) {
        let token = self.context.scope.token();
        tokio::select! {
            () = tokio::time::sleep(FOLLOW_LOOK) => {}
            changed = self.condition.changed() => if changed.is_err() {
                self.turn = ReadPhase::Last;
            },
            () = token.cancelled() => self.turn = ReadPhase::Last,
        }
    }
}

/// Cuts a console that is too long to its end, and returns how many bytes it removed. Lines that
/// are written at the same moment may be lost.
fn cut(console: &Path) -> io::Result<u64> {
    if fs::metadata(console)?.len() <= BYTES_MAX {
        return Ok(0);
    }
    let mut file = File::options().read(true).append(true).open(console)?;
    let begin = file.seek(SeekFrom::End(-(BYTES_KEPT as i64)))?;
    let mut end = Vec::with_capacity(BYTES_KEPT as usize);
    (&file).take(BYTES_KEPT).read_to_end(&mut end)?;
    let lines = whole_lines(&end);
    file.set_len(0)?;
    file.write_all(lines)?;
    Ok(begin + (end.len() - lines.len()) as u64)
}

fn end_of(bytes: &[u8]) -> &[u8] {
    match bytes.len().checked_sub(BYTES_KEPT as usize) {
        None | Some(0) => bytes,
        Some(begin) => whole_lines(&bytes[begin..]),
    }
}

/// Returns everything after the first line break; all bytes if there is none.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    bytes.iter().position(|byte| *byte == b'\n').map_or(bytes, |at| &bytes[at + 1..])
}

/// Appends a file's bytes from an offset on. A missing file has none.
fn read_from(path: &Path, offset: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    file.seek(SeekFrom::Start(offset))?;
    file.take(READ_BYTES_MAX).read_to_end(bytes).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ground {
        folder: tempfile::TempDir,
        consoles: Consoles,
        id: SandboxId,
    }

    impl Ground {
        fn make() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let consoles = Consoles::open(&folder.path().join("run"), folder.path(), &HashSet::new()).unwrap();
            Self { folder, consoles, id: SandboxId::random() }
        }

        fn machine(&self) -> (MachineId, File) {
            let machine = MachineId::random();
            let run_dir = self.folder.path().join("run").join(machine.to_string());
            fs::create_dir_all(&run_dir).unwrap();
            let writer = File::options().create(true).append(true).open(run_dir.join("console.log")).unwrap();
            self.consoles.begin(self.id, machine);
            (machine, writer)
        }

        fn read(&self, from: u64) -> (String, u64) {
            let piece = self.consoles.read(self.id, from).unwrap();
            (String::from_utf8(piece.bytes).unwrap(), piece.next)
        }
    }

    #[test]
    fn a_long_console_keeps_its_last_lines_and_its_writer() {
        let folder = tempfile::tempdir().unwrap();
        let console = folder.path().join("console.log");
        let mut writer = File::options().create(true).append(true).open(&console).unwrap();
        for number in 0..200_000 {
            writeln!(writer, "line {number}").unwrap();
        }
        let before = fs::metadata(&console).unwrap().len();
        assert!(before > BYTES_MAX);
        let dropped = cut(&console).unwrap();
        assert_eq!(dropped + fs::metadata(&console).unwrap().len(), before);
        writeln!(writer, "after").unwrap();
        let text = fs::read_to_string(&console).unwrap();
        assert!(text.len() as u64 <= BYTES_KEPT + 6 && text.starts_with("line "), "{}", &text[..20]);
        assert!(text.ends_with("line 199999\nafter\n"));
        let before = text.len();
        assert_eq!(cut(&console).unwrap(), 0);
        assert_eq!(fs::metadata(&console).unwrap().len() as usize, before, "a short one is left alone");
    }

    /// A guest can make its machine's process print, with every bad request to a device.
    #[test]
    fn what_a_machines_process_prints_is_cut() {
        let ground = Ground::make();
        let (machine, _) = ground.machine();
        let log = ground.folder.path().join("run").join(machine.to_string()).join("machine.log");
        let mut writer = File::options().create(true).append(true).open(&log).unwrap();
        for _ in 0..3 {
            for number in 0..200_000 {
                writeln!(writer, "virtio: bad request {number}").unwrap();
            }
            ground.consoles.cut_all();
            let text = fs::read_to_string(&log).unwrap();
            assert!(text.len() as u64 <= BYTES_KEPT, "{} bytes are left", text.len());
            assert!(text.ends_with("bad request 199999\n"));
        }
    }

    #[test]
    fn a_follower_misses_nothing_of_a_cut() {
        let ground = Ground::make();
        let (_, mut writer) = ground.machine();
        let (mut position, mut seen) = (0, Vec::new());
        for round in 0..40 {
            for line in 0..4000 {
                writeln!(writer, "line {}", round * 4000 + line).unwrap();
            }
            if round % 3 == 0 {
                ground.consoles.cut_all();
            }
            let (text, next) = ground.read(position);
            seen.extend(text.lines().map(str::to_owned));
            position = next;
        }
        let expected: Vec<_> = (0..160_000).map(|number| format!("line {number}")).collect();
        assert!(seen == expected, "{} lines", seen.len());
    }

    #[test]
    fn who_is_too_late_gets_whole_lines_of_what_is_left() {
        let ground = Ground::make();
        let (_, mut writer) = ground.machine();
        writeln!(writer, "first").unwrap();
        let (_, position) = ground.read(0);
        for number in 0..200_000 {
            writeln!(writer, "line {number}").unwrap();
        }
        ground.consoles.cut_all();
        let (text, next) = ground.read(position);
        assert!(text.starts_with("line ") && text.ends_with("line 199999\n"));
        assert_eq!(ground.read(next), (String::new(), next));
    }

    #[test]
    fn a_console_outlives_its_machines() {
        let mut ground = Ground::make();
        let (machine, mut writer) = ground.machine();
        writeln!(writer, "one").unwrap();
        let (text, position) = ground.read(0);
        assert_eq!(text, "one\n");
        writeln!(writer, "two").unwrap();
        ground.consoles.keep(ground.id).unwrap();
        fs::remove_dir_all(ground.folder.path().join("run").join(machine.to_string())).unwrap();
        assert_eq!(ground.read(position), ("two\n".into(), 8));
        assert_eq!(ground.read(0).0, "one\ntwo\n");
        let here = HashSet::from([ground.id]);
        ground.consoles = Consoles::open(&ground.folder.path().join("run"), ground.folder.path(), &here).unwrap();
        assert_eq!(ground.read(0).0, "one\ntwo\n", "it is there after a restart");

        let (_, mut writer) = ground.machine();
        writeln!(writer, "three").unwrap();
        assert_eq!(ground.read(8).0, "three\n");
        assert_eq!(ground.read(0), ("one\ntwo\nthree\n".into(), 14));
        for number in 0..200_000 {
            writeln!(writer, "line {number}").unwrap();
        }
        ground.consoles.cut_all();
        let (text, _) = ground.read(14);
        assert!(text.starts_with("line ") && text.ends_with("line 199999\n"), "{}", &text[..20]);
        ground.consoles.keep(ground.id).unwrap();
        ground.consoles.forget(ground.id);
        assert_eq!(ground.read(5), (String::new(), 5));
        assert_eq!(fs::read_dir(ground.folder.path().join("consoles")).unwrap().count(), 0);
    }

    #[test]
    fn consoles_of_nobody_are_removed() {
        let ground = Ground::make();
        let (_, mut writer) = ground.machine();
        writeln!(writer, "one").unwrap();
        ground.consoles.keep(ground.id).unwrap();
        Consoles::open(&ground.folder.path().join("run"), ground.folder.path(), &HashSet::new()).unwrap();
        assert_eq!(fs::read_dir(ground.folder.path().join("consoles")).unwrap().count(), 0);
    }
}
