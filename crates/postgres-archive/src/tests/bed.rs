//! An archive in a temporary folder, its directory, a store with faults, and a small HTTP client.

use std::{
    collections::HashMap,
    fmt,
    path::Path as FilePath,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use async_trait::async_trait;
use futures_util::{StreamExt, stream::BoxStream};
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result, local::LocalFileSystem, path::Path,
};
use pandastack_kit::Scope;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{Archive, ArchiveDirectory, ArchiveSettings, ArchiveState, ArchiveStore, DirectoryError, Who};

pub const DB: &str = "db_one";

/// What the store does with requests that write or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFault {
    None,
    /// All requests fail.
    Down,
    /// All requests hang.
    Hang,
    /// All requests take so long.
    Slow(Duration),
    /// The request with this number, counted from now, is done but its answer is lost.
    LoseAnswer(u64),
    /// The request with this number is not done.
    Refuse(u64),
}

/// A folder as the store, with faults.
#[derive(Debug)]
pub struct FaultyStore {
    folder: LocalFileSystem,
    fault: Mutex<(StoreFault, u64)>,
    pub puts: Mutex<Vec<String>>,
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faulty store")
    }
}

fn broken() -> object_store::Error {
    object_store::Error::Generic { store: "faulty", source: "the store is down".into() }
}

/// What happens to one request.
enum Turn {
    Do,
    DoAndLose,
}

impl FaultyStore {
    pub fn new(folder: &FilePath) -> Arc<Self> {
        std::fs::create_dir_all(folder).unwrap();
        let folder = LocalFileSystem::new_with_prefix(folder).unwrap().with_automatic_cleanup(true);
        Arc::new(Self { folder, fault: Mutex::new((StoreFault::None, 0)), puts: Mutex::default() })
    }

    pub fn set(&self, fault: StoreFault) {
        *self.fault.lock().unwrap() = (fault, 0);
    }

    async fn turn(&self) -> Result<Turn> {
        let fault = {
            let mut fault = self.fault.lock().unwrap();
            fault.1 += 1;
            *fault
        };
        match fault {
            (StoreFault::Down, _) => Err(broken()),
            (StoreFault::Hang, _) => std::future::pending().await,
            (StoreFault::Slow(pause), _) => {
                tokio::time::sleep(pause).await;
                Ok(Turn::Do)
            }
            (StoreFault::Refuse(at), now) if at == now => Err(broken()),
            (StoreFault::LoseAnswer(at), now) if at == now => Ok(Turn::DoAndLose),
            _ => Ok(Turn::Do),
        }
    }
}

fn finish<T>(turn: &Turn, done: Result<T>) -> Result<T> {
    match turn {
        Turn::Do => done,
        Turn::DoAndLose => done.and_then(|_| Err(broken())),
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(&self, key: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let turn = self.turn().await?;
        let done = self.folder.put_opts(key, payload, options).await;
        self.puts.lock().unwrap().push(key.to_string());
        finish(&turn, done)
    }

    async fn put_multipart_opts(&self, key: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let turn = self.turn().await?;
        finish(&turn, self.folder.put_multipart_opts(key, options).await)
    }

    async fn get_opts(&self, key: &Path, options: GetOptions) -> Result<GetResult> {
        let turn = self.turn().await?;
        finish(&turn, self.folder.get_opts(key, options).await)
    }

    fn delete_stream(&self, keys: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        if self.fault.lock().unwrap().0 == StoreFault::Down {
            return futures_util::stream::iter([Err(broken())]).boxed();
        }
        self.folder.delete_stream(keys)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.fault.lock().unwrap().0 {
            StoreFault::Down => futures_util::stream::iter([Err(broken())]).boxed(),
            StoreFault::Hang => futures_util::stream::pending().boxed(),
            _ => self.folder.list(prefix),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.folder.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let turn = self.turn().await?;
        finish(&turn, self.folder.copy_opts(from, to, options).await)
    }
}

/// Answers as the test says; unknown machines are databases.
#[derive(Default)]
pub struct Directory(pub Mutex<HashMap<String, std::result::Result<Who, String>>>);

#[async_trait]
impl ArchiveDirectory for Directory {
    async fn who(&self, id: &str) -> std::result::Result<Who, DirectoryError> {
        match self.0.lock().unwrap().get(id) {
            None => Ok(Who::Database),
            Some(Ok(who)) => Ok(who.clone()),
            Some(Err(reason)) => Err(DirectoryError { reason: reason.to_string() }),
        }
    }

    async fn is_read(&self, id: &str) -> std::result::Result<bool, DirectoryError> {
        let reads = |who: &_| matches!(who, Ok(Who::Restoring { source }) if source == id);
        Ok(self.0.lock().unwrap().values().any(reads))
    }
}

/// An archive that can be ended as by a crash and opened again.
pub struct Bed {
    pub folder: TempDir,
    pub store: Arc<FaultyStore>,
    pub directory: Arc<Directory>,
    pub archive: Archive,
    pub scope: Scope,
}

impl Bed {
    pub fn new() -> Self {
        Self::sized(crate::limits::SPOOL_BYTES_MAX)
    }

    pub fn sized(spool_bytes_max: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = FaultyStore::new(&folder.path().join("store"));
        let (directory, scope) = (Arc::new(Directory::default()), Scope::new());
        let settings = ArchiveSettings {
            spool: folder.path().join("spool"),
            spool_bytes_max,
            store: ArchiveStore::Other(store.clone()),
        };
        let archive = Archive::open(settings, directory.clone(), scope.clone()).unwrap();
        Self { folder, store, directory, archive, scope }
    }

    /// Ends all work and opens the archive again.
    pub async fn reopen(self) -> Self {
        let Self { folder, store, directory, archive, scope } = self;
        scope.close(Duration::from_millis(200)).await;
        drop(archive);
        let scope = Scope::new();
        let settings = ArchiveSettings::new(folder.path().join("spool"), ArchiveStore::Other(store.clone()));
        let archive = Archive::open(settings, directory.clone(), scope.clone()).unwrap();
        Self { folder, store, directory, archive, scope }
    }

    pub fn is(&self, id: &str, who: Who) {
        self.directory.0.lock().unwrap().insert(id.into(), Ok(who));
    }

    pub async fn put(&self, path: &str, content: &[u8]) -> u16 {
        self.send(DB, "PUT", path, &[], content).await.0
    }

    pub async fn get(&self, path: &str) -> (u16, Vec<u8>) {
        self.send(DB, "GET", path, &[], b"").await
    }

    /// Sends one request of one machine over a socket of its own.
    pub async fn send(&self, id: &str, method: &str, path: &str, headers: &[&str], content: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = self.connect(id).await;
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        for header in headers {
            head.push_str(&format!("{header}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", content.len()));
        stream.write_all(head.as_bytes()).await.unwrap();
        // An early answer may close the socket.
        let _ = stream.write_all(content).await;
        answer(&mut stream).await
    }

    pub async fn connect(&self, id: &str) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (served, _) = listener.accept().await.unwrap();
        let (archive, id) = (self.archive.clone(), id.to_owned());
        self.scope.start("test connection", async move { archive.serve(&id, served).await });
        stream
    }

    pub async fn state(&self, id: &str) -> ArchiveState {
        self.archive.state(id).await.unwrap()
    }

    /// Waits until a fact about the database holds.
    pub async fn until(&self, what: &str, holds: impl Fn(&ArchiveState) -> bool) -> ArchiveState {
        let begun = Instant::now();
        loop {
            let state = self.state(DB).await;
            if holds(&state) {
                return state;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "not {what}: {state:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Reads an answer: its status and its body.
pub async fn answer(stream: &mut TcpStream) -> (u16, Vec<u8>) {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return (0, bytes) };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, bytes[end + 4..].to_vec())
}

/// A segment's name on the first timeline.
pub fn wal(number: u64) -> String {
    format!("/wal/{}", crate::name::Segment { timeline: 1, number })
}

/// Content that differs for each number.
pub fn content(number: u64) -> Vec<u8> {
    let mut content = vec![0; 100_000];
    content[..8].copy_from_slice(&number.to_le_bytes());
    content
}

pub fn at(second: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(second)
}
