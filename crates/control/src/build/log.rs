//! A build's log: a file that one task appends to and any number of readers replay or follow. It is
//! bounded, and kept as long as the build's row.

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard},
};

use pandastack_kit::Scope;
use pandastack_model::BuildId;
use pandastack_wire_public::log_lines;
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{mpsc, watch},
};

use crate::limits::{BUILD_LOG_BYTES_MAX, BUILD_LOG_QUEUE_MAX};

const CUT: &str = "… the log is full; further output is omitted";

/// Bytes of one read.
const READ_BYTES: usize = 64 * 1024;

/// The logs of all builds.
#[derive(Clone)]
pub struct BuildLogs {
    folder: PathBuf,
    /// Logs that are being written, each with its length.
    live: Arc<Mutex<HashMap<BuildId, watch::Receiver<u64>>>>,
    scope: Scope,
}

/// Writes one log. The log is complete when all writers are dropped.
#[derive(Clone)]
pub struct BuildLogWriter {
    lines: mpsc::Sender<LogEntry>,
}

struct LogEntry {
    line: String,
    /// Written even if the log is full.
    must: bool,
}

/// Reads one log from its start.
pub struct BuildLogReader {
    file: Option<File>,
    grown: Option<watch::Receiver<u64>>,
    unfinished: Vec<u8>,
}

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub enum LogRead {
    Lines(Vec<String>),
    /// No lines yet.
    Quiet,
    End,
}

impl BuildLogs {
    pub fn new(folder: PathBuf, scope: Scope) -> Self {
        Self { folder, live: Arc::default(), scope }
    }

    fn path(&self, build: BuildId) -> PathBuf {
        self.folder.join(format!("{build}.log"))
    }

    fn live(&self) -> MutexGuard<'_, HashMap<BuildId, watch::Receiver<u64>>> {
        self.live.lock().expect("no holder panics")
    }

    /// Starts a log, or continues an existing one.
    pub async fn begin(&self, build: BuildId) -> io::Result<BuildLogWriter> {
        let file = File::options().append(true).create(true).open(self.path(build)).await?;
        let (lines, queue) = mpsc::channel(BUILD_LOG_QUEUE_MAX);
        let (grown, watching) = watch::channel(0);
        self.live().insert(build, watching);
        let logs = self.clone();
        self.scope.start("build log", async move {
            if let Err(error) = write(file, queue, grown).await {
                tracing::warn!(%build, %error, "could not write a build's log");
            }
            logs.live().remove(&build);
        });
        Ok(BuildLogWriter { lines })
    }

    /// Opens a log from its start. A follower also gets the lines that come later.
    pub async fn read(&self, build: BuildId, follow: bool) -> io::Result<BuildLogReader> {
        // Before the file is opened, so that lines written in between are announced.
        let grown = self.live().get(&build).cloned().filter(|_| follow);
        let file = match File::open(self.path(build)).await {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(BuildLogReader { file, grown, unfinished: Vec::new() })
    }

    /// Removes a log.
    pub async fn remove(&self, build: BuildId) {
        let _ = tokio::fs::remove_file(self.path(build)).await;
    }
}

impl BuildLogWriter {
    /// Adds text, split into lines that every client can read. Written even if the log is full.
    pub async fn say(&self, text: impl AsRef<str>) {
        self.add(text.as_ref(), true).await;
    }

    /// Adds a step's output, as long as there is room.
    pub async fn output(&self, text: &str) {
        self.add(text, false).await;
    }

    async fn add(&self, text: &str, must: bool) {
        for line in log_lines(text) {
            // A log that cannot be written does not fail the build.
            let _ = self.lines.send(LogEntry { line, must }).await;
        }
    }
}

async fn write(mut file: File, mut queue: mpsc::Receiver<LogEntry>, grown: watch::Sender<u64>) -> io::Result<()> {
    let mut written = file.metadata().await?.len();
    let mut batch = Vec::new();
    let mut cut = false;
    while queue.recv_many(&mut batch, BUILD_LOG_QUEUE_MAX).await > 0 {
        let mut text = String::new();
        for LogEntry { line, must } in batch.drain(..) {
            let fits = written + text.len() as u64 + line.len() as u64 <= BUILD_LOG_BYTES_MAX;
            if !fits && !must {
                if !std::mem::replace(&mut cut, true) {
                    text.push_str(CUT);
                    text.push('\n');
                }
                continue;
            }
            text.push_str(&line);
            text.push('\n');
        }
        file.write_all(text.as_bytes()).await?;
        file.flush().await?;
        written += text.len() as u64;
        grown.send_replace(written);
    }
    Ok(())
}

impl BuildLogReader {
    /// Returns the next lines. Waits for them if the log is followed.
    pub async fn next(&mut self) -> io::Result<LogRead> {
        let Some(file) = &mut self.file else { return Ok(LogRead::End) };
        // Marked as seen before reading, so that lines written during the read wake the next wait.
        let mut ended = true;
        if let Some(grown) = &mut self.grown {
            ended = grown.has_changed().is_err();
            grown.mark_unchanged();
        }
        let mut piece = vec![0; READ_BYTES];
        let count = file.read(&mut piece).await?;
        if count > 0 {
            self.unfinished.extend_from_slice(&piece[..count]);
            return Ok(LogRead::Lines(self.whole_lines()));
        }
        if ended {
            return Ok(LogRead::End);
        }
        if let Some(grown) = &mut self.grown {
            // An error means that the writer has ended. The rest is read once more.
            let _ = grown.changed().await;
        }
        Ok(LogRead::Quiet)
    }

    fn whole_lines(&mut self) -> Vec<String> {
        let Some(end) = self.unfinished.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let rest = self.unfinished.split_off(end + 1);
        let text = std::mem::replace(&mut self.unfinished, rest);
        String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(mut reader: BuildLogReader) -> Vec<String> {
        let mut found = Vec::new();
        loop {
            match reader.next().await.unwrap() {
                LogRead::Lines(lines) => found.extend(lines),
                LogRead::Quiet => {}
                LogRead::End => return found,
            }
        }
    }

    fn logs() -> (tempfile::TempDir, BuildLogs) {
        let folder = tempfile::tempdir().unwrap();
        let logs = BuildLogs::new(folder.path().to_owned(), Scope::new());
        (folder, logs)
    }

    #[tokio::test]
    async fn a_follower_hears_everything_and_then_the_end() {
        let (_folder, logs) = logs();
        let build = BuildId::random();
        let writer = logs.begin(build).await.unwrap();
        writer.say("one\rtwo").await;
        let follower = all(logs.read(build, true).await.unwrap());
        let speaker = async move {
            for line in 0..500 {
                writer.output(&format!("line {line}")).await;
            }
        };
        let (heard, ()) = tokio::join!(follower, speaker);
        assert_eq!((heard.len(), heard[0].as_str(), heard[501].as_str()), (502, "one", "line 499"));
        assert_eq!(all(logs.read(build, false).await.unwrap()).await, heard);
        assert_eq!(all(logs.read(build, true).await.unwrap()).await, heard);
    }

    #[tokio::test]
    async fn a_log_has_an_end_but_not_before_its_last_words() {
        let (_folder, logs) = logs();
        let build = BuildId::random();
        let writer = logs.begin(build).await.unwrap();
        for _ in 0..BUILD_LOG_BYTES_MAX / 1000 + 50 {
            writer.output(&"x".repeat(1000)).await;
        }
        writer.say("over").await;
        drop(writer);
        let heard = all(logs.read(build, true).await.unwrap()).await;
        let bytes: usize = heard.iter().map(String::len).sum();
        assert!(bytes as u64 <= BUILD_LOG_BYTES_MAX + 1000);
        assert_eq!(heard.iter().filter(|line| *line == CUT).count(), 1);
        assert_eq!(heard.last().unwrap(), "over");
    }

    #[tokio::test]
    async fn a_missing_log_is_empty() {
        let (_folder, logs) = logs();
        assert!(all(logs.read(BuildId::random(), true).await.unwrap()).await.is_empty());
    }
}
