//! Copies files into a build's machine: `COPY` and `ADD`. Bytes go from the spool to the guest's
//! agent. Only a file's first bytes are inspected here; archives are unpacked in the machine.

use std::collections::BTreeSet;

use futures_util::{TryStreamExt, future::try_join_all, stream};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{ByteStream, FileKind, WriteParams};
use tokio::{fs::File, io::AsyncReadExt};
use tokio_util::io::ReaderStream;

use super::{
    failure::BuildFailure,
    machine::BuildMachine,
    plan::{PlaceFiles, PlacedContents, PlacedFile},
};
use crate::limits::PLACED_AT_ONCE_MAX;

/// Path of an archive while it is unpacked.
const ARCHIVE: &str = "/tmp/.pandastack-archive";

/// Most paths that one command gets as arguments.
const PATHS_AT_ONCE_MAX: usize = 200;

const PLAIN_MODE: u32 = 0o644;
const PROGRAM_MODE: u32 = 0o755;

impl BuildMachine<'_> {
    /// Places files. A replaced file keeps nothing of the old one.
    pub(super) async fn place(&self, place: &PlaceFiles) -> Result<(), BuildFailure> {
        let into_folder = place.into_folder || self.is_folder(&place.dest).await?;
        if into_folder {
            self.make_folders(std::slice::from_ref(&place.dest)).await?;
        }
        let (mut targets, mut archives) = (Vec::new(), Vec::new());
        for item in &place.items {
            match &item.contents {
                PlacedContents::File(file) if place.unpack && self.is_archive(*file).await? => archives.push(*file),
                _ if into_folder => targets.push((join(&place.dest, &item.name), item)),
                _ => targets.push((place.dest.clone(), item)),
            }
        }
        for some in targets.chunks(PLACED_AT_ONCE_MAX) {
            let mut writing = Vec::new();
            for (target, item) in some {
                writing.push(self.write(place, target, item));
            }
            try_join_all(writing).await?;
        }
        for file in archives {
            self.unpack(file, &place.dest).await?;
        }
        match &place.owner {
            Some(owner) => self.give(owner, place, &targets, into_folder).await,
            None => Ok(()),
        }
    }

    pub(super) async fn is_folder(&self, path: &str) -> Result<bool, BuildFailure> {
        match self.control.host.stat(self.id, path).await {
            Ok(entry) => Ok(entry.kind == FileKind::Directory),
            Err(fault) if fault.kind == FaultKind::Missing => Ok(false),
            Err(fault) => Err(fault.into()),
        }
    }

    async fn write(&self, place: &PlaceFiles, target: &str, item: &PlacedFile) -> Result<(), BuildFailure> {
        let (body, usual): (ByteStream, u32) = match &item.contents {
            PlacedContents::Text(text) => {
                let mode = if text.starts_with("#!") { PROGRAM_MODE } else { PLAIN_MODE };
                (Box::pin(stream::iter([Ok(bytes::Bytes::from(text.clone().into_bytes()))])), mode)
            }
            PlacedContents::File(file) => {
                let entry = &self.job.spool.files[*file];
                (self.body(*file).await?, if entry.program { PROGRAM_MODE } else { PLAIN_MODE })
            }
        };
        let ask = WriteParams { path: target.to_owned(), mode: Some(place.mode.unwrap_or(usual)) };
        let named = |fault: Fault| BuildFailure::from(fault).at(&format!("writing {target}"));
        self.control.host.write_file(self.id, ask, body).await.map(drop).map_err(named)
    }

    async fn open(&self, file: usize) -> Result<File, BuildFailure> {
        let part = self.job.spool.files[file].part;
        File::open(self.job.spool.path(part)).await.map_err(|error| Fault::bug(error).into())
    }

    async fn body(&self, file: usize) -> Result<ByteStream, BuildFailure> {
        Ok(Box::pin(ReaderStream::new(self.open(file).await?).map_err(Fault::bug)))
    }

    /// Reports whether `ADD` unpacks a file. Its name and its first bytes must both be an
    /// archive's.
    async fn is_archive(&self, file: usize) -> Result<bool, BuildFailure> {
        let name = self.job.spool.files[file].path.to_ascii_lowercase();
        let mut head = Vec::new();
        let read = self.open(file).await?.take(512).read_to_end(&mut head).await;
        read.map_err(Fault::bug)?;
        let packed = [(".gz", &b"\x1f\x8b"[..]), (".tgz", b"\x1f\x8b"), (".bz2", b"BZh"), (".xz", b"\xfd7zXZ")];
        let named =
            name.ends_with(".tgz") || [".gz", ".bz2", ".xz"].iter().any(|end| name.ends_with(&format!(".tar{end}")));
        let is_packed = named && packed.iter().any(|(end, magic)| name.ends_with(end) && head.starts_with(magic));
        Ok(is_packed || head.get(257..262) == Some(b"ustar"))
    }

    async fn unpack(&self, file: usize, dest: &str) -> Result<(), BuildFailure> {
        let ask = WriteParams { path: ARCHIVE.to_owned(), mode: Some(0o600) };
        self.control.host.write_file(self.id, ask, self.body(file).await?).await?;
        self.make_folders(&[dest.to_owned()]).await?;
        let words = ["tar", "-x", "-p", "-f", ARCHIVE, "-C", dest];
        let unpacked = self.run_as_root(words.into_iter().map(str::to_owned).collect()).await;
        self.control.host.delete_path(self.id, ARCHIVE).await?;
        unpacked.map_err(|failure| failure.at(&format!("unpacking {}", self.job.spool.files[file].path)))
    }

    /// Changes the owner of the placed files and of the folders that were made for them.
    async fn give(
        &self,
        owner: &str,
        place: &PlaceFiles,
        targets: &[(String, &PlacedFile)],
        into_folder: bool,
    ) -> Result<(), BuildFailure> {
        let mut paths: BTreeSet<String> = targets.iter().map(|(target, _)| target.clone()).collect();
        if into_folder {
            for (_, item) in targets {
                let folders = item.name.match_indices('/').map(|(at, _)| join(&place.dest, &item.name[..at]));
                paths.extend(folders);
            }
        }
        let paths: Vec<String> = paths.into_iter().collect();
        for some in paths.chunks(PATHS_AT_ONCE_MAX) {
            let words = ["chown", "-h", owner, "--"].into_iter().map(str::to_owned);
            self.run_as_root(words.chain(some.iter().cloned()).collect()).await?;
        }
        Ok(())
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder == "/" { format!("/{name}") } else { format!("{folder}/{name}") }
}
