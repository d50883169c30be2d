//! Receives the body of a build request: text fields into memory, files into the build's own spool
//! folder. A name that a client chose never names a file on this host.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::body::{Body, Bytes};
use futures_util::{Stream, StreamExt};
use multer::{Field, Multipart};
use pandastack_model::{Fault, FaultKind, ShareRefusal, Shares};
use pandastack_wire_fleet::WorkspaceId;
use pandastack_wire_public::BuildFields;
use sha2::{Digest, Sha256};
use tokio::{fs::File, io::AsyncWriteExt, time::timeout};

use super::{
    context::{self, ContextFile},
    image::{self, SpoolFull},
};
use crate::limits::{
    BUILD_FIELD_BYTES_MAX, CONTEXT_BYTES_MAX, CONTEXT_FILES_MAX, ROOTFS_BYTES_MAX, SPOOL_BYTES_MAX, UPLOAD_QUIET_MAX,
};

/// Name of the part that is a root file system, if the request has no Dockerfile.
const ROOTFS: &str = "rootfs";

/// Most bytes that the parser may take without returning any.
const UNREAD_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A received body.
#[derive(Debug)]
pub struct BuildUpload {
    pub fields: BuildFields,
    pub spool: BuildSpool,
}

/// The files of one build. They are deleted on drop.
#[derive(Debug)]
pub struct BuildSpool {
    folder: PathBuf,
    pub files: Vec<ContextFile>,
    /// Number of the part that is the root file system.
    pub rootfs: Option<usize>,
    pub rootfs_digest: Option<String>,
    pub bytes: u64,
    workspace: WorkspaceId,
    /// Bytes that the spools of each workspace occupy.
    shares: Arc<Mutex<Shares<WorkspaceId>>>,
}

impl BuildSpool {
    /// Makes an empty spool.
    pub fn new(folder: PathBuf, workspace: WorkspaceId, shares: Arc<Mutex<Shares<WorkspaceId>>>) -> io::Result<Self> {
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder, files: Vec::new(), rootfs: None, rootfs_digest: None, bytes: 0, workspace, shares })
    }

    /// Path of a part.
    pub fn path(&self, part: usize) -> PathBuf {
        self.folder.join(format!("part-{part}"))
    }

    pub(super) fn charge(&mut self, bytes: u64) -> Result<(), Fault> {
        let taken =
            self.shares.lock().unwrap_or_else(PoisonError::into_inner).take(&self.workspace, bytes, SPOOL_BYTES_MAX);
        match taken {
            Ok(()) => {
                self.bytes += bytes;
                Ok(())
            }
            Err(ShareRefusal::Share { held, most }) => {
                let text = format!(
                    "the uploads of this workspace use {held} bytes, and its share is now {most}; try again when \
                     other builds have finished"
                );
                Err(Fault::new(FaultKind::Quota, "quota.upload_bytes", text))
            }
            Err(ShareRefusal::Full { .. }) => {
                Err(Fault::new(FaultKind::Storage, "build.no_room", SpoolFull.to_string()))
            }
        }
    }
}

impl image::LayerSpool for BuildSpool {
    fn path(&self, part: usize) -> PathBuf {
        self.path(part)
    }

    fn charge(&mut self, bytes: u64) -> Result<(), SpoolFull> {
        BuildSpool::charge(self, bytes).map_err(|_| SpoolFull)
    }
}

impl Drop for BuildSpool {
    fn drop(&mut self) {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner).give_back(&self.workspace, self.bytes);
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, "could not remove a build's files; the next start tries again");
        }
    }
}

/// Receives a body: multipart or a URL-encoded form.
pub async fn receive(content_type: &str, body: Body, spool: BuildSpool) -> Result<BuildUpload, Fault> {
    let upload = BuildUpload { fields: BuildFields::default(), spool };
    match multer::parse_boundary(content_type) {
        Ok(boundary) => {
            let unread = UnreadBytes::default();
            multipart(Multipart::new(unread.watch(body), boundary), &unread, upload).await
        }
        Err(_) if content_type.trim_start().to_ascii_lowercase().starts_with("application/x-www-form-urlencoded") => {
            urlencoded(body, upload).await
        }
        Err(_) => {
            let text = "send multipart/form-data or application/x-www-form-urlencoded";
            Err(Fault::new(FaultKind::Caller, "build.bad_encoding", text))
        }
    }
}

async fn urlencoded(body: Body, mut upload: BuildUpload) -> Result<BuildUpload, Fault> {
    let (mut stream, mut bytes) = (body.into_data_stream(), Vec::new());
    while let Some(piece) = timeout(UPLOAD_QUIET_MAX, stream.next()).await.map_err(|_| slow())? {
        bytes.extend_from_slice(&piece.map_err(broken)?);
        // Percent-encoding writes up to three bytes for one.
        if bytes.len() > 3 * BUILD_FIELD_BYTES_MAX {
            return Err(too_large("the form is too large"));
        }
    }
    for (name, value) in form_urlencoded::parse(&bytes) {
        upload.fields.set(&name, value.into_owned());
    }
    Ok(upload)
}

/// Bytes that the parser took without returning any. Bounds the head of a part, which the parser
/// keeps in memory.
#[derive(Clone, Debug, Default)]
struct UnreadBytes(Arc<AtomicU64>);

impl UnreadBytes {
    fn watch(&self, body: Body) -> impl Stream<Item = Result<Bytes, io::Error>> + Send + 'static {
        let unread = self.clone();
        body.into_data_stream().map(move |piece| {
            let piece = piece.map_err(io::Error::other)?;
            let bytes = unread.0.fetch_add(piece.len() as u64, Ordering::Relaxed) + piece.len() as u64;
            if bytes > UNREAD_BYTES_MAX {
                Err(io::Error::other("the headers of a part are too long"))
            } else {
                Ok(piece)
            }
        })
    }

    fn given(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

async fn multipart(
    mut parts: Multipart<'_>,
    unread: &UnreadBytes,
    mut upload: BuildUpload,
) -> Result<BuildUpload, Fault> {
    let mut count = 0;
    while let Some(field) = timeout(UPLOAD_QUIET_MAX, parts.next_field()).await.map_err(|_| slow())?.map_err(broken)? {
        unread.given();
        count += 1;
        if count > CONTEXT_FILES_MAX {
            return Err(too_large(&format!("more than {CONTEXT_FILES_MAX} files")));
        }
        let name = field.name().unwrap_or_default().to_owned();
        if field.file_name().is_none() {
            let value = text(field, unread).await?;
            upload.fields.set(&name, value);
        } else {
            file(FilePart { field, name, number: count }, unread, &mut upload.spool).await?;
        }
    }
    let BuildUpload { fields, spool } = &mut upload;
    // With a Dockerfile every file belongs to the context, whatever its name.
    if fields.dockerfile.is_none() {
        fields.rootfs = spool.files.iter().any(|file| file.path == ROOTFS);
        let rootfs = spool.files.iter().find(|file| file.path == ROOTFS);
        (spool.rootfs, spool.rootfs_digest) = rootfs.map(|file| (file.part, file.digest.clone())).unzip();
        spool.files.retain(|file| file.path != ROOTFS);
    }
    let context: u64 = spool.files.iter().map(|file| file.bytes).sum();
    if context > CONTEXT_BYTES_MAX {
        return Err(context_too_large());
    }
    Ok(upload)
}

async fn text(mut field: Field<'_>, unread: &UnreadBytes) -> Result<String, Fault> {
    let mut bytes = Vec::new();
    while let Some(piece) = timeout(UPLOAD_QUIET_MAX, field.chunk()).await.map_err(|_| slow())?.map_err(broken)? {
        unread.given();
        bytes.extend_from_slice(&piece);
        if bytes.len() > BUILD_FIELD_BYTES_MAX {
            return Err(too_large(&format!("a field is larger than {BUILD_FIELD_BYTES_MAX} bytes")));
        }
    }
    String::from_utf8(bytes).map_err(|_| Fault::new(FaultKind::Caller, "build.bad_field", "a field is not UTF-8"))
}

/// A part that is a file.
struct FilePart<'a> {
    field: Field<'a>,
    name: String,
    number: usize,
}

async fn file(part: FilePart<'_>, unread: &UnreadBytes, spool: &mut BuildSpool) -> Result<(), Fault> {
    let FilePart { mut field, name, number: part } = part;
    let path = context::checked(&name).map_err(|text| Fault::new(FaultKind::Caller, "build.bad_path", text))?;
    if spool.files.iter().any(|file| file.path == path) {
        let text = format!("context path {path:?} was sent twice");
        return Err(Fault::new(FaultKind::Caller, "build.bad_path", text));
    }
    let before: u64 = spool.files.iter().filter(|file| file.path != ROOTFS).map(|file| file.bytes).sum();
    let mut to = File::create_new(spool.path(part)).await.map_err(Fault::bug)?;
    let (mut hasher, mut bytes, mut head) = (Sha256::new(), 0_u64, Vec::new());
    while let Some(piece) = timeout(UPLOAD_QUIET_MAX, field.chunk()).await.map_err(|_| slow())?.map_err(broken)? {
        unread.given();
        bytes += piece.len() as u64;
        match path == ROOTFS {
            true if bytes > ROOTFS_BYTES_MAX => {
                return Err(too_large(&format!("rootfs is larger than {ROOTFS_BYTES_MAX} bytes")));
            }
            false if before + bytes > CONTEXT_BYTES_MAX => return Err(context_too_large()),
            _ => {}
        }
        spool.charge(piece.len() as u64)?;
        hasher.update(&piece);
        head.extend(piece.iter().take(4_usize.saturating_sub(head.len())));
        to.write_all(&piece).await.map_err(Fault::bug)?;
    }
    to.flush().await.map_err(Fault::bug)?;
    let digest = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    // Uploads carry no modes. Executables are recognised by their first bytes.
    let program = head.starts_with(b"#!") || head.starts_with(b"\x7fELF");
    spool.files.push(ContextFile { path, digest, bytes, program, part });
    Ok(())
}

fn context_too_large() -> Fault {
    too_large(&format!("the build context is larger than {CONTEXT_BYTES_MAX} bytes"))
}

fn too_large(text: &str) -> Fault {
    Fault::new(FaultKind::TooLarge, "build.too_large", text)
}

fn slow() -> Fault {
    let text = format!("no part of the body arrived for {} s", UPLOAD_QUIET_MAX.as_secs());
    Fault::new(FaultKind::Caller, "body.slow", text)
}

fn broken(error: impl std::fmt::Display) -> Fault {
    Fault::new(FaultKind::Caller, "body.broken", "the body ended early or is malformed").with_detail(error)
}
