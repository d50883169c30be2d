//! Keeps the consoles of machines short. A guest writes to its console as much as it likes, and the file lies in the host's
//! memory; what is too old is cut off, and the machine goes on appending.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
    sync::Arc,
    time::Duration,
};

use crate::{recover::folders, sandbox::Parts};

/// A console that is longer is cut.
const BYTES_MAX: u64 = 1024 * 1024;

/// What is left of it, from the end.
const BYTES_KEPT: u64 = 256 * 1024;

/// Between two looks. An emulated serial line carries some megabytes in this time.
const LOOK: Duration = Duration::from_secs(2);

/// Looks after all consoles until the host closes.
pub async fn keep_short(parts: Arc<Parts>) {
    let token = parts.scope.token();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = token.cancelled() => return,
        }
        let run_root = parts.run_root.clone();
        let _ = parts.scope.block("consoles", move || cut_all(&run_root)).await;
    }
}

fn cut_all(run_root: &Path) {
    for folder in folders(run_root) {
        let console = run_root.join(folder).join("console.log");
        match cut(&console) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%error, console = %console.display(), "console not cut"),
        }
    }
}

/// Leaves only the end of a console that is too long. Lines that are written in this very moment may be lost.
fn cut(console: &Path) -> io::Result<()> {
    if std::fs::metadata(console)?.len() <= BYTES_MAX {
        return Ok(());
    }
    let mut file = File::options().read(true).append(true).open(console)?;
    file.seek(SeekFrom::End(-(BYTES_KEPT as i64)))?;
    let mut end = Vec::with_capacity(BYTES_KEPT as usize);
    (&file).take(BYTES_KEPT).read_to_end(&mut end)?;
    let whole_lines = end.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    file.set_len(0)?;
    file.write_all(&end[whole_lines..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_console_keeps_its_last_lines_and_its_writer() {
        let folder = tempfile::tempdir().unwrap();
        let console = folder.path().join("console.log");
        let mut writer = File::options().create(true).append(true).open(&console).unwrap();
        for number in 0..200_000 {
            writeln!(writer, "line {number}").unwrap();
        }
        assert!(std::fs::metadata(&console).unwrap().len() > BYTES_MAX);
        cut(&console).unwrap();
        writeln!(writer, "after").unwrap();
        let text = std::fs::read_to_string(&console).unwrap();
        assert!(text.len() as u64 <= BYTES_KEPT + 6 && text.starts_with("line "), "{}", &text[..20]);
        assert!(text.ends_with("line 199999\nafter\n"));
        let before = text.len();
        cut(&console).unwrap();
        assert_eq!(std::fs::metadata(&console).unwrap().len() as usize, before, "a short one is left alone");
    }
}
