//! Files and folders of the stub. Reading a path that ends with `breaks` breaks off.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use pandastack_model::{Fault, FaultKind, SandboxId};

use super::StubHost;
use crate::{
    ByteStream, ExistingTarget, FileBody, FileChangeStream, FileEntry, FileKind, PathScope, TreePort, UnpackSummary,
    WalkParams, WalkResult, WriteParams,
};

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StubFile {
    /// The mode, if the request had one.
    pub mode: Option<u32>,
    pub bytes: Vec<u8>,
}

/// A small plain file in a listing.
pub fn file_entry(name: &str) -> FileEntry {
    FileEntry {
        name: name.into(),
        kind: FileKind::File,
        size: 3,
        mode: 0o100_644,
        modified: 1_700_000_000,
        target: None,
    }
}

impl StubHost {
    /// Puts a file into every sandbox.
    pub fn put_file(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.files.lock().unwrap().insert(path.to_owned(), StubFile { mode: None, bytes: bytes.into() });
    }

    /// A guest may report any name, so this one is wrong.
    pub(super) fn stat_file(&self, path: &str) -> Result<FileEntry, Fault> {
        if self.files.lock().unwrap().contains_key(path) { Ok(file_entry("../made-up")) } else { Err(missing()) }
    }

    pub(super) fn open_file(&self, path: &str) -> Result<FileBody, Fault> {
        let bytes = self.files.lock().unwrap().get(path).ok_or_else(missing)?.bytes.clone();
        // Small pieces cut characters in two. Large files get larger ones, to stay fast.
        let piece = if bytes.len() > 1 << 20 { 1 << 16 } else { 3 };
        let pieces = bytes.chunks(piece).map(Bytes::copy_from_slice).collect();
        Ok(FileBody { entry: file_entry("f"), body: pieces_of(path, pieces) })
    }

    pub(super) async fn keep_file(&self, ask: WriteParams, body: ByteStream) -> Result<u64, Fault> {
        let bytes = match read_body(body).await {
            Ok(bytes) => bytes,
            Err(fault) => {
                self.broken_uploads.lock().unwrap().push(fault);
                // The caller must not depend on the host to repeat the fault.
                return Err(Fault::bug("the body broke"));
            }
        };
        let count = bytes.len() as u64;
        self.files.lock().unwrap().insert(ask.path, StubFile { mode: ask.mode, bytes });
        Ok(count)
    }
}

fn missing() -> Fault {
    Fault::new(FaultKind::Missing, "path.not_found", "no such file")
}

fn pieces_of(path: &str, pieces: Vec<Bytes>) -> ByteStream {
    let lost = Fault::new(FaultKind::Unavailable, "fs.lost", "the sandbox was lost");
    let end = path.ends_with("breaks").then_some(Err(lost));
    Box::pin(stream::iter(pieces.into_iter().map(Ok).chain(end)))
}

/// Reads a body to its end.
pub(super) async fn read_body(mut body: ByteStream) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece?);
    }
    Ok(bytes)
}

#[async_trait]
impl TreePort for StubHost {
    async fn make_dir(&self, id: SandboxId, path: &str, above: PathScope) -> Result<(), Fault> {
        self.serve("make_dir", id)?;
        self.record(format!("make_dir {path} {above:?}"));
        Ok(())
    }

    async fn move_path(&self, id: SandboxId, from: &str, to: &str, in_the_way: ExistingTarget) -> Result<(), Fault> {
        self.serve("move_path", id)?;
        self.record(format!("move_path {from} {to} {in_the_way:?}"));
        Ok(())
    }

    async fn chmod(&self, id: SandboxId, path: &str, mode: u32, below: PathScope) -> Result<(), Fault> {
        self.serve("chmod", id)?;
        self.record(format!("chmod {path} {mode:o} {below:?}"));
        Ok(())
    }

    async fn walk(&self, id: SandboxId, ask: WalkParams) -> Result<WalkResult, Fault> {
        self.serve("walk", id)?;
        self.record(format!("walk {} {}", ask.path, ask.depth));
        let entries = self.walked.lock().unwrap().iter().map(|name| file_entry(name)).collect();
        Ok(WalkResult { entries, truncated: true })
    }

    async fn watch(&self, id: SandboxId, path: &str, below: PathScope) -> Result<FileChangeStream, Fault> {
        self.serve("watch", id)?;
        self.record(format!("watch {path} {below:?}"));
        let changes = self.changes.lock().unwrap().pop_front().ok_or_else(missing)?;
        Ok(Box::pin(stream::iter(changes).chain(stream::pending())))
    }

    async fn read_tree(&self, id: SandboxId, path: &str) -> Result<ByteStream, Fault> {
        self.serve("read_tree", id)?;
        Ok(pieces_of(path, vec!["tar".into(), "ball".into()]))
    }

    async fn write_tree(&self, id: SandboxId, path: &str, body: ByteStream) -> Result<UnpackSummary, Fault> {
        self.serve("write_tree", id)?;
        let bytes = read_body(body).await?.len() as u64;
        self.record(format!("write_tree {path} {bytes}"));
        Ok(UnpackSummary { entries: 2, bytes })
    }
}
