//! A stub control plane with two tenants, and a stub host whose commands the test plays.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use pandastack_model::{
    Bytes as Size, CodeLanguage, CodeSessionId, Egress, ExecDefaults, Fault, FaultKind, GuestPort, LINK_LABEL_BYTES,
    LayerId, LinkLabel, PathRules, SandboxId, VolumeId,
};
use pandastack_wire_fleet::{
    AuditReport, BootAsk, ByteStream, Caller, CellAsk, CellEvent, CellStream, CodeSessionView, ConsoleAsk, ControlPort,
    Ensure, ExecAsk, ExecControl, ExecEvent, ExecSession, FileBody, FileEntry, FileKind, ForkAsk, Forked, GuestStream,
    HostEvent, HostPort, HostStatus, LayerView, Lifecycle, ListeningPort, MachineUsage, Presence, PreviewGrant,
    SandboxView, SealAsk, TemplateView, VolumeView, WorkspaceId, WriteAsk,
};
use tokio::{
    io::DuplexStream,
    sync::{broadcast, mpsc},
};

/// How many events a command may be ahead of its reader.
pub const WINDOW: usize = 4;

/// Buffer size of a connection to a port.
pub const STREAM_BYTES: usize = 64 * 1024;

/// Every key is its own tenant. The sandbox belongs to `mine`.
pub struct StubControl(pub SandboxId);

#[async_trait]
impl ControlPort for StubControl {
    async fn authenticate(&self, token: Option<&str>) -> Result<Caller, Fault> {
        let token = token.ok_or_else(|| Fault::new(FaultKind::Unauthorized, "unauthorized", "no key"))?;
        Ok(Caller::of(WorkspaceId(token.to_owned())))
    }

    async fn admit(&self, caller: &Caller, sandbox: SandboxId) -> Result<(), Fault> {
        if caller.workspace.0 == "mine" && sandbox == self.0 { Ok(()) } else { Err(Fault::no_sandbox()) }
    }

    async fn admit_look(&self, caller: &Caller, sandbox: SandboxId) -> Result<(), Fault> {
        self.admit(caller, sandbox).await
    }

    async fn admit_anyone(&self, sandbox: SandboxId) -> Result<(), Fault> {
        if sandbox == self.0 { Ok(()) } else { Err(Fault::no_sandbox()) }
    }

    /// The tokens `all` and `docs` (one path) are valid. `gone` belongs to a deleted sandbox.
    async fn open_preview(&self, token: &str) -> Result<PreviewGrant, Fault> {
        let paths = match token {
            "all" => Vec::new(),
            "docs" => vec!["/docs".to_owned()],
            "gone" => return Err(Fault::no_sandbox()),
            _ => {
                return Err(Fault::new(FaultKind::Unauthorized, "preview.bad_token", "this preview link is not valid"));
            }
        };
        let port = GuestPort::try_from(3000).unwrap();
        let label = LinkLabel::new([token.len() as u8; LINK_LABEL_BYTES]);
        Ok(PreviewGrant { sandbox: self.0, port, paths: PathRules::new(paths).unwrap(), label })
    }
}

/// The host's end of a command: the request, and the channels to play it.
pub struct Played {
    pub ask: ExecAsk,
    pub events: mpsc::Sender<ExecEvent>,
    pub control: mpsc::Receiver<ExecControl>,
}

/// The host's end of a cell.
pub struct PlayedCell {
    pub ask: CellAsk,
    pub events: mpsc::Sender<CellEvent>,
}

/// The guest's end of a connection to a port. The test is the program that listens.
pub struct Connected {
    pub id: SandboxId,
    pub port: GuestPort,
    pub stream: DuplexStream,
}

pub struct StubHost {
    played: mpsc::Sender<Played>,
    pub files: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Faults that broken uploads ended with.
    pub broken: Arc<Mutex<Vec<Fault>>>,
    pub listing: Mutex<Vec<FileEntry>>,
    /// Fault for every attempt to run something.
    pub refusal: Mutex<Option<Fault>>,
    /// Has one more reference for each presence.
    pub present: Arc<()>,
    /// Fault for connections to ports.
    pub refuse: Mutex<Option<Fault>>,
    connected: mpsc::Sender<Connected>,
    pub beyond: crate::beyond::Beyond,
    pub sessions: Mutex<Vec<CodeSessionView>>,
    cells: mpsc::Sender<PlayedCell>,
    /// Taken by the test that plays cells.
    pub played_cells: Mutex<Option<mpsc::Receiver<PlayedCell>>>,
    /// The console: existing output and new output.
    pub console: Mutex<Option<Console>>,
}

/// Existing output of a console, and the channel for new output.
pub type Console = (Vec<u8>, mpsc::Receiver<Vec<u8>>);

impl StubHost {
    pub fn new() -> (Arc<Self>, mpsc::Receiver<Played>, mpsc::Receiver<Connected>) {
        let (played, far_end) = mpsc::channel(8);
        let (connected, ports) = mpsc::channel(256);
        let (cells, played_cells) = mpsc::channel(8);
        let host = Self {
            played,
            files: Mutex::default(),
            broken: Arc::default(),
            listing: Mutex::new(vec![entry("b"), entry("a")]),
            refusal: Mutex::default(),
            present: Arc::default(),
            refuse: Mutex::default(),
            connected,
            beyond: crate::beyond::Beyond::default(),
            sessions: Mutex::default(),
            cells,
            played_cells: Mutex::new(Some(played_cells)),
            console: Mutex::default(),
        };
        (Arc::new(host), far_end, ports)
    }

    fn session(&self, id: &CodeSessionId) -> Result<(), Fault> {
        let known = self.sessions.lock().unwrap().iter().any(|session| session.id == *id);
        if known { Ok(()) } else { Err(Fault::new(FaultKind::Missing, "session.not_found", "session not found")) }
    }

    fn file(&self, path: &str) -> Result<Vec<u8>, Fault> {
        let missing = || Fault::new(FaultKind::Missing, "fs.not_found", "no such file");
        self.files.lock().unwrap().get(path).cloned().ok_or_else(missing)
    }
}

pub fn entry(name: &str) -> FileEntry {
    FileEntry {
        name: name.into(),
        kind: FileKind::File,
        size: 3,
        mode: 0o100_644,
        modified: 1_700_000_000,
        target: None,
    }
}

fn not_ours<T>() -> Result<T, Fault> {
    Err(Fault::bug("not the edge's business"))
}

#[async_trait]
impl HostPort for StubHost {
    async fn ensure(&self, _: Ensure) -> Result<SandboxView, Fault> {
        not_ours()
    }

    async fn remove(&self, _: SandboxId) -> Result<(), Fault> {
        not_ours()
    }

    async fn pause(&self, _: SandboxId) -> Result<SandboxView, Fault> {
        not_ours()
    }

    async fn resume(&self, _: SandboxId) -> Result<SandboxView, Fault> {
        not_ours()
    }

    async fn sleep(&self, _: SandboxId) -> Result<SandboxView, Fault> {
        not_ours()
    }

    async fn wake(&self, _: SandboxId) -> Result<SandboxView, Fault> {
        not_ours()
    }

    async fn seal(&self, _: SandboxId, _: SealAsk) -> Result<LayerView, Fault> {
        not_ours()
    }

    async fn seal_as(&self, _: SandboxId, _: SealAsk, _: ExecDefaults) -> Result<LayerView, Fault> {
        not_ours()
    }

    async fn fork(&self, _: ForkAsk) -> Result<Forked, Fault> {
        not_ours()
    }

    async fn release(&self, _: LayerId) -> Result<(), Fault> {
        not_ours()
    }

    async fn set_egress(&self, _: SandboxId, _: Egress) -> Result<(), Fault> {
        not_ours()
    }

    async fn set_lifecycle(&self, _: SandboxId, _: Lifecycle) -> Result<SandboxView, Fault> {
        not_ours()
    }

    async fn make_volume(&self, _: VolumeId, _: Size) -> Result<VolumeView, Fault> {
        not_ours()
    }

    async fn grow_volume(&self, _: VolumeId, _: Size) -> Result<VolumeView, Fault> {
        not_ours()
    }

    async fn remove_volume(&self, _: VolumeId) -> Result<(), Fault> {
        not_ours()
    }

    async fn volumes(&self) -> Result<Vec<VolumeView>, Fault> {
        not_ours()
    }

    async fn boot(&self, _: BootAsk) -> Result<LayerView, Fault> {
        not_ours()
    }

    async fn audit(&self) -> Result<AuditReport, Fault> {
        not_ours()
    }

    async fn observe(&self, _: SandboxId) -> Option<SandboxView> {
        None
    }

    async fn observe_all(&self) -> Vec<SandboxView> {
        Vec::new()
    }

    async fn status(&self) -> HostStatus {
        not_ours().expect("nobody asks")
    }

    async fn usage(&self, _: SandboxId) -> Result<Option<MachineUsage>, Fault> {
        not_ours()
    }

    async fn usages(&self) -> Vec<MachineUsage> {
        Vec::new()
    }

    async fn console(&self, _: SandboxId, ask: ConsoleAsk) -> Result<ByteStream, Fault> {
        let (past, comes) = self.console.lock().unwrap().take().ok_or_else(Fault::no_sandbox)?;
        let first = stream::iter([Ok(Bytes::from(past))]);
        match ask {
            ConsoleAsk::Past => Ok(Box::pin(first)),
            ConsoleAsk::Follow => {
                let comes = stream::unfold(comes, |mut comes| async move {
                    let piece: Vec<u8> = comes.recv().await?;
                    Some((Ok(Bytes::from(piece)), comes))
                });
                Ok(Box::pin(first.chain(comes)))
            }
        }
    }

    async fn templates(&self) -> Vec<TemplateView> {
        Vec::new()
    }

    async fn attend(&self, _: SandboxId) -> Result<Presence, Fault> {
        match self.refusal.lock().unwrap().clone() {
            Some(fault) => Err(fault),
            None => Ok(Presence::new(self.present.clone())),
        }
    }

    async fn exec(&self, _: SandboxId, ask: ExecAsk) -> Result<ExecSession, Fault> {
        if let Some(fault) = self.refusal.lock().unwrap().clone() {
            return Err(fault);
        }
        let ((event_tx, events), (control, control_rx)) = (mpsc::channel(WINDOW), mpsc::channel(WINDOW));
        self.played.send(Played { ask, events: event_tx, control: control_rx }).await.unwrap();
        Ok(ExecSession { events, control })
    }

    async fn open_code(
        &self,
        _: SandboxId,
        session: &CodeSessionId,
        language: CodeLanguage,
    ) -> Result<CodeSessionView, Fault> {
        if let Some(fault) = self.refusal.lock().unwrap().clone() {
            return Err(fault);
        }
        let view = CodeSessionView { id: session.clone(), language, created_ms: 1_700_000_000_000, cells: 0 };
        let mut sessions = self.sessions.lock().unwrap();
        if !sessions.iter().any(|other| other.id == view.id) {
            sessions.push(view.clone());
        }
        Ok(view)
    }

    async fn code_sessions(&self, _: SandboxId) -> Result<Vec<CodeSessionView>, Fault> {
        Ok(self.sessions.lock().unwrap().clone())
    }

    async fn close_code(&self, _: SandboxId, session: &CodeSessionId) -> Result<(), Fault> {
        self.session(session)?;
        self.sessions.lock().unwrap().retain(|other| other.id != *session);
        Ok(())
    }

    async fn run_cell(&self, _: SandboxId, ask: CellAsk) -> Result<CellStream, Fault> {
        self.session(&ask.session)?;
        let (event_tx, events) = mpsc::channel(WINDOW);
        self.cells.send(PlayedCell { ask, events: event_tx }).await.unwrap();
        let next = |mut events: mpsc::Receiver<CellEvent>| async { Some((events.recv().await?, events)) };
        Ok(Box::pin(stream::unfold(events, next)))
    }

    async fn read_file(&self, _: SandboxId, path: &str) -> Result<FileBody, Fault> {
        let bytes = self.file(path)?;
        let mut pieces: Vec<Result<Bytes, Fault>> = bytes
            .chunks(if bytes.len() > 1 << 20 { 1 << 16 } else { 3 })
            .map(|piece| Ok(Bytes::copy_from_slice(piece)))
            .collect();
        if path.ends_with("breaks") {
            pieces.push(Err(Fault::new(FaultKind::Unavailable, "fs.lost", "the sandbox was lost")));
        }
        Ok(FileBody { entry: entry("f"), body: Box::pin(stream::iter(pieces)) })
    }

    async fn write_file(&self, _: SandboxId, ask: WriteAsk, mut body: ByteStream) -> Result<u64, Fault> {
        let mut bytes = Vec::new();
        while let Some(piece) = body.next().await {
            match piece {
                Ok(piece) => bytes.extend_from_slice(&piece),
                Err(fault) => {
                    self.broken.lock().unwrap().push(fault);
                    return Err(Fault::bug("the body broke"));
                }
            }
        }
        let count = bytes.len() as u64;
        self.files.lock().unwrap().insert(ask.path, bytes);
        Ok(count)
    }

    async fn list_dir(&self, _: SandboxId, _: &str) -> Result<Vec<FileEntry>, Fault> {
        Ok(self.listing.lock().unwrap().clone())
    }

    async fn stat(&self, _: SandboxId, path: &str) -> Result<FileEntry, Fault> {
        self.file(path).map(|_| entry("../made-up"))
    }

    async fn delete_path(&self, _: SandboxId, path: &str) -> Result<(), Fault> {
        self.files.lock().unwrap().remove(path);
        Ok(())
    }

    async fn listening(&self, _: SandboxId) -> Result<Vec<ListeningPort>, Fault> {
        not_ours()
    }

    async fn connect(&self, id: SandboxId, port: GuestPort) -> Result<GuestStream, Fault> {
        if let Some(fault) = self.refuse.lock().unwrap().clone() {
            return Err(fault);
        }
        let (ours, theirs) = tokio::io::duplex(STREAM_BYTES);
        self.connected.send(Connected { id, port, stream: theirs }).await.unwrap();
        Ok(Box::new(ours))
    }

    fn events(&self) -> broadcast::Receiver<HostEvent> {
        broadcast::channel(1).1
    }
}
