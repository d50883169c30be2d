//! The object store behind the archive: a folder or S3. Owns the names of objects and the time
//! limit of every request; decides nothing about what is kept.

use std::{fs::File, io, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream::BoxStream};
use object_store::{
    GetResult, GetResultPayload, ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload, local::LocalFileSystem,
    path::Path,
};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

use crate::{
    limits::{PART_BYTES, STORE_LIST_MAX, STORE_REQUEST_MAX},
    s3::{self, S3Settings},
};

/// Where archives are kept.
#[derive(Clone, Debug)]
pub enum ArchiveStore {
    /// A folder. Files and folders are flushed to the disk before a write counts.
    Folder(PathBuf),
    S3(S3Settings),
    /// A store that the caller made.
    Other(Arc<dyn ObjectStore>),
}

/// A request to the store that failed.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveStoreError {
    #[error("{what} {key:?}")]
    Request {
        what: &'static str,
        key: String,
        #[source]
        cause: object_store::Error,
    },
    #[error("{what} {key:?}: no answer within {limit:?}")]
    Slow { what: &'static str, key: String, limit: Duration },
    #[error("open the store")]
    Open(#[source] object_store::Error),
    #[error("open the store: {0}")]
    Settings(String),
    #[error("read object {key:?}")]
    Damaged {
        key: String,
        #[source]
        cause: io::Error,
    },
    #[error("use the disk of the archive")]
    Disk(#[source] io::Error),
    #[error("the archive was removed")]
    Removed,
}

impl ArchiveStoreError {
    /// Reports whether the object does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Request { cause: object_store::Error::NotFound { .. }, .. })
    }
}

/// The opened store.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    order: ListOrder,
}

/// Whether the store lists by name. S3 does; a folder does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListOrder {
    Sorted,
    Any,
}

impl Objects {
    pub fn open(settings: ArchiveStore) -> Result<Self, ArchiveStoreError> {
        match settings {
            ArchiveStore::Folder(folder) => {
                std::fs::create_dir_all(&folder)
                    .map_err(|error| ArchiveStoreError::Settings(format!("make {}: {error}", folder.display())))?;
                let store = LocalFileSystem::new_with_prefix(folder).map_err(ArchiveStoreError::Open)?;
                let store = store.with_fsync(true).with_automatic_cleanup(true);
                Ok(Self { store: Arc::new(store), prefix: Path::default(), order: ListOrder::Any })
            }
            ArchiveStore::S3(settings) => {
                let prefix =
                    Path::parse(&settings.prefix).map_err(|error| ArchiveStoreError::Settings(error.to_string()))?;
                Ok(Self { store: s3::open(&settings)?, prefix, order: ListOrder::Sorted })
            }
            ArchiveStore::Other(store) => Ok(Self { store, prefix: Path::default(), order: ListOrder::Any }),
        }
    }

    /// The name of an object of one archive: `db/<id>/<folder>/<name>`.
    pub fn key(&self, id: &str, folder: &str, name: &str) -> Path {
        self.folder(id).join(folder).join(name)
    }

    fn folder(&self, id: &str) -> Path {
        self.prefix.clone().join("db").join(id)
    }

    pub async fn put(&self, key: &Path, content: Bytes) -> Result<(), ArchiveStoreError> {
        within("put", key, STORE_REQUEST_MAX, self.store.put(key, PutPayload::from_bytes(content))).await.map(drop)
    }

    pub async fn get(&self, key: &Path) -> Result<GetResult, ArchiveStoreError> {
        within("get", key, STORE_REQUEST_MAX, self.store.get(key)).await
    }

    /// Reads a whole object of a limited size.
    pub async fn read(&self, key: &Path, bytes_max: u64) -> Result<Bytes, ArchiveStoreError> {
        let found = self.get(key).await?;
        check_size(key, &found, bytes_max)?;
        within("read", key, STORE_REQUEST_MAX, found.bytes()).await
    }

    /// Reads a whole object of a limited size to the disk: into the given file, unless the store
    /// has a file of its own. The file that is returned is at its beginning.
    pub async fn read_file(&self, key: &Path, room: File, bytes_max: u64) -> Result<File, ArchiveStoreError> {
        let found = self.get(key).await?;
        check_size(key, &found, bytes_max)?;
        let mut pieces = match found.payload {
            GetResultPayload::File(file, _) => return Ok(file),
            GetResultPayload::Stream(pieces) => pieces,
        };
        let mut room = tokio::fs::File::from_std(room);
        let copying = async {
            while let Some(piece) = pieces.next().await {
                let piece = piece.map_err(|cause| request("read", key, cause))?;
                room.write_all(&piece).await.map_err(ArchiveStoreError::Disk)?;
            }
            room.rewind().await.map_err(ArchiveStoreError::Disk)
        };
        let late = |_| slow("read", key, STORE_REQUEST_MAX);
        tokio::time::timeout(STORE_REQUEST_MAX, copying).await.map_err(late)??;
        Ok(room.into_std().await)
    }

    /// Writes a whole file, in parts if it is large. Asks between them whether the archive was
    /// removed meanwhile.
    pub async fn put_file(
        &self,
        key: &Path,
        file: File,
        is_removed: impl Fn() -> bool,
    ) -> Result<(), ArchiveStoreError> {
        let mut file = tokio::fs::File::from_std(file);
        let first = next_part(&mut file).await?;
        if first.len() < PART_BYTES {
            return self.put(key, first.into()).await;
        }
        let mut upload = within("begin", key, STORE_REQUEST_MAX, self.store.put_multipart(key)).await?;
        let mut part = first;
        while !part.is_empty() {
            let sent = within("upload a part of", key, STORE_REQUEST_MAX, upload.put_part(part.into())).await;
            let next = match sent {
                Ok(()) if is_removed() => Err(ArchiveStoreError::Removed),
                Ok(()) => next_part(&mut file).await,
                Err(error) => Err(error),
            };
            match next {
                Ok(next) => part = next,
                Err(error) => {
                    // The store forgets unfinished uploads by itself, later.
                    let _ = within("abort", key, STORE_REQUEST_MAX, upload.abort()).await;
                    return Err(error);
                }
            }
        }
        within("finish", key, STORE_REQUEST_MAX, upload.complete()).await.map(drop)
    }

    pub async fn delete(&self, key: &Path) -> Result<(), ArchiveStoreError> {
        match within("delete", key, STORE_REQUEST_MAX, self.store.delete(key)).await {
            Err(error) if error.is_absent() => Ok(()),
            other => other,
        }
    }

    /// Deletes many objects. One that is not there counts as deleted.
    pub async fn delete_all(&self, keys: Vec<Path>) -> Result<(), ArchiveStoreError> {
        let Some(first) = keys.first().cloned() else { return Ok(()) };
        let deleted = self.store.delete_stream(futures_util::stream::iter(keys.into_iter().map(Ok)).boxed());
        let all = deleted.try_for_each_or_absent();
        within("delete from", &first, STORE_LIST_MAX, all).await
    }

    pub async fn copy(&self, from: &Path, to: &Path) -> Result<(), ArchiveStoreError> {
        within("copy", from, STORE_LIST_MAX, self.store.copy(from, to)).await
    }

    /// Lists the objects of one archive, or of one of its folders.
    pub async fn list(&self, id: &str, folder: Option<&str>) -> Result<Vec<ObjectMeta>, ArchiveStoreError> {
        let mut prefix = self.folder(id);
        if let Some(folder) = folder {
            prefix = prefix.join(folder);
        }
        within("list", &prefix, STORE_LIST_MAX, self.store.list(Some(&prefix)).try_collect()).await
    }

    /// Finds an object whose name starts so.
    pub async fn starting_with(
        &self,
        id: &str,
        folder: &str,
        start: &str,
    ) -> Result<Option<String>, ArchiveStoreError> {
        let (prefix, offset) = (self.folder(id).join(folder), self.key(id, folder, start));
        let mut found = self.store.list_with_offset(Some(&prefix), &offset);
        let finding = async {
            while let Some(meta) = found.try_next().await? {
                let name = meta.location.filename().unwrap_or_default().to_owned();
                if name.starts_with(start) {
                    return Ok(Some(name));
                }
                if self.order == ListOrder::Sorted {
                    break;
                }
            }
            Ok(None)
        };
        within("list", &offset, STORE_LIST_MAX, finding).await
    }
}

/// Reads the next part of a file. An empty one is its end.
async fn next_part(file: &mut tokio::fs::File) -> Result<Vec<u8>, ArchiveStoreError> {
    let mut part = Vec::new();
    file.take(PART_BYTES as u64).read_to_end(&mut part).await.map_err(ArchiveStoreError::Disk)?;
    Ok(part)
}

fn check_size(key: &Path, found: &GetResult, bytes_max: u64) -> Result<(), ArchiveStoreError> {
    if found.meta.size <= bytes_max {
        return Ok(());
    }
    let cause = io::Error::other(format!("it has more than {bytes_max} bytes"));
    Err(ArchiveStoreError::Damaged { key: key.to_string(), cause })
}

/// Gives a request to the store its time limit.
pub(crate) async fn within<T>(
    what: &'static str,
    key: &Path,
    limit: Duration,
    work: impl Future<Output = object_store::Result<T>>,
) -> Result<T, ArchiveStoreError> {
    match tokio::time::timeout(limit, work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(cause)) => Err(request(what, key, cause)),
        Err(_) => Err(slow(what, key, limit)),
    }
}

fn request(what: &'static str, key: &Path, cause: object_store::Error) -> ArchiveStoreError {
    ArchiveStoreError::Request { what, key: key.to_string(), cause }
}

fn slow(what: &'static str, key: &Path, limit: Duration) -> ArchiveStoreError {
    ArchiveStoreError::Slow { what, key: key.to_string(), limit }
}

trait Deleted {
    async fn try_for_each_or_absent(self) -> object_store::Result<()>;
}

impl Deleted for BoxStream<'static, object_store::Result<Path>> {
    async fn try_for_each_or_absent(mut self) -> object_store::Result<()> {
        while let Some(deleted) = self.next().await {
            match deleted {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
