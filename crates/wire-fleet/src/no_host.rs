//! The port of a server that has no host. Another server on the same database has it.

use std::time::Duration;

use async_trait::async_trait;
use pandastack_model::{
    ByteSize, CodeLanguage, CodeSessionId, Egress, ExecDefaults, Fault, FaultKind, GuestPort, LayerId, SandboxId, Tier,
    VolumeId,
};
use tokio::sync::broadcast;

use crate::{
    AttachParams, AuditReport, BootParams, ByteStream, CellParams, CellStream, CodeSessionView, ConsoleRange,
    EnsureParams, ExecParams, ExecSession, ExistingTarget, FileBody, FileChangeStream, FileEntry, ForkOutcome,
    ForkParams, GuestStream, HostEvent, HostPort, HostStatus, IdlePolicy, LayerView, ListeningPort, MachineUsage,
    PathScope, Presence, ProcessNumber, ProcessOutputStream, ProcessPort, ProcessView, RecordedSandbox, SandboxView,
    SealParams, SpawnParams, StdinAfterWrite, TemplateView, TreePort, UnpackSummary, UsageCursor, UsagePage, UseKind,
    VolumeView, WalkParams, WalkResult, WriteParams,
};

const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A host that does not exist. It refuses everything that needs a machine, and knows of nothing.
#[derive(Debug)]
pub struct NoHost {
    /// Never sends. It keeps the receivers open.
    events: broadcast::Sender<HostEvent>,
}

impl NoHost {
    /// Returns the refusal of a request that needs a host.
    pub fn refusal() -> Fault {
        let text = "this server runs no sandboxes; send the request to the server that has the host";
        // Behind a balancer the next try may reach the right server.
        Fault { retry_after: Some(RETRY_AFTER), ..Fault::new(FaultKind::Unavailable, "host.none", text) }
    }
}

impl Default for NoHost {
    fn default() -> Self {
        Self { events: broadcast::Sender::new(1) }
    }
}

fn none<T>() -> Result<T, Fault> {
    Err(NoHost::refusal())
}

#[async_trait]
impl ProcessPort for NoHost {
    async fn spawn(&self, _: SandboxId, _: SpawnParams) -> Result<ProcessView, Fault> {
        none()
    }

    async fn processes(&self, _: SandboxId) -> Result<Vec<ProcessView>, Fault> {
        none()
    }

    async fn process(&self, _: SandboxId, _: ProcessNumber) -> Result<ProcessView, Fault> {
        none()
    }

    async fn attach(&self, _: SandboxId, _: AttachParams) -> Result<ProcessOutputStream, Fault> {
        none()
    }

    async fn feed(&self, _: SandboxId, _: ProcessNumber, _: ByteStream, _: StdinAfterWrite) -> Result<u64, Fault> {
        none()
    }

    async fn signal(&self, _: SandboxId, _: ProcessNumber, _: i32) -> Result<(), Fault> {
        none()
    }

    async fn forget(&self, _: SandboxId, _: ProcessNumber) -> Result<(), Fault> {
        none()
    }
}

#[async_trait]
impl TreePort for NoHost {
    async fn make_dir(&self, _: SandboxId, _: &str, _: PathScope) -> Result<(), Fault> {
        none()
    }

    async fn move_path(&self, _: SandboxId, _: &str, _: &str, _: ExistingTarget) -> Result<(), Fault> {
        none()
    }

    async fn chmod(&self, _: SandboxId, _: &str, _: u32, _: PathScope) -> Result<(), Fault> {
        none()
    }

    async fn walk(&self, _: SandboxId, _: WalkParams) -> Result<WalkResult, Fault> {
        none()
    }

    async fn watch(&self, _: SandboxId, _: &str, _: PathScope) -> Result<FileChangeStream, Fault> {
        none()
    }

    async fn read_tree(&self, _: SandboxId, _: &str) -> Result<ByteStream, Fault> {
        none()
    }

    async fn write_tree(&self, _: SandboxId, _: &str, _: ByteStream) -> Result<UnpackSummary, Fault> {
        none()
    }
}

#[async_trait]
impl HostPort for NoHost {
    fn is_here(&self) -> bool {
        false
    }

    async fn ensure(&self, _: EnsureParams) -> Result<SandboxView, Fault> {
        none()
    }

    async fn remove(&self, _: SandboxId) -> Result<(), Fault> {
        none()
    }

    async fn pause(&self, _: SandboxId) -> Result<SandboxView, Fault> {
        none()
    }

    async fn resume(&self, _: SandboxId) -> Result<SandboxView, Fault> {
        none()
    }

    async fn sleep(&self, _: SandboxId) -> Result<SandboxView, Fault> {
        none()
    }

    async fn wake(&self, _: SandboxId) -> Result<SandboxView, Fault> {
        none()
    }

    async fn seal(&self, _: SandboxId, _: SealParams) -> Result<LayerView, Fault> {
        none()
    }

    async fn seal_as(&self, _: SandboxId, _: SealParams, _: ExecDefaults) -> Result<LayerView, Fault> {
        none()
    }

    async fn fork(&self, _: ForkParams) -> Result<ForkOutcome, Fault> {
        none()
    }

    async fn release(&self, _: LayerId) -> Result<(), Fault> {
        none()
    }

    async fn set_egress(&self, _: SandboxId, _: Egress) -> Result<(), Fault> {
        none()
    }

    async fn set_lifecycle(&self, _: SandboxId, _: IdlePolicy) -> Result<SandboxView, Fault> {
        none()
    }

    async fn make_volume(&self, _: VolumeId, _: ByteSize) -> Result<VolumeView, Fault> {
        none()
    }

    async fn grow_volume(&self, _: VolumeId, _: ByteSize) -> Result<VolumeView, Fault> {
        none()
    }

    async fn remove_volume(&self, _: VolumeId) -> Result<(), Fault> {
        none()
    }

    async fn volumes(&self) -> Result<Vec<VolumeView>, Fault> {
        none()
    }

    async fn boot(&self, _: BootParams) -> Result<LayerView, Fault> {
        none()
    }

    async fn audit(&self) -> Result<AuditReport, Fault> {
        none()
    }

    async fn observe(&self, _: SandboxId) -> Option<SandboxView> {
        None
    }

    async fn observe_all(&self) -> Vec<SandboxView> {
        Vec::new()
    }

    async fn recorded(&self) -> Result<Vec<RecordedSandbox>, Fault> {
        none()
    }

    async fn status(&self) -> HostStatus {
        HostStatus {
            tier: Tier::Fake,
            sandboxes: 0,
            standby: 0,
            blanks: 0,
            memory_promised: ByteSize::new(0),
            disk_free: ByteSize::new(0),
            disk_total: ByteSize::new(0),
            resident: ByteSize::new(0),
        }
    }

    async fn usage_facts(&self, _: &UsageCursor, _: usize) -> Result<UsagePage, Fault> {
        none()
    }

    async fn usage(&self, _: SandboxId) -> Result<Option<MachineUsage>, Fault> {
        none()
    }

    async fn usages(&self) -> Vec<MachineUsage> {
        Vec::new()
    }

    async fn console(&self, _: SandboxId, _: ConsoleRange) -> Result<ByteStream, Fault> {
        none()
    }

    async fn templates(&self) -> Vec<TemplateView> {
        Vec::new()
    }

    async fn attend(&self, _: SandboxId) -> Result<Presence, Fault> {
        none()
    }

    async fn exec_as(&self, _: SandboxId, _: ExecParams, _: UseKind) -> Result<ExecSession, Fault> {
        none()
    }

    async fn open_code(&self, _: SandboxId, _: &CodeSessionId, _: CodeLanguage) -> Result<CodeSessionView, Fault> {
        none()
    }

    async fn code_sessions(&self, _: SandboxId) -> Result<Vec<CodeSessionView>, Fault> {
        none()
    }

    async fn close_code(&self, _: SandboxId, _: &CodeSessionId) -> Result<(), Fault> {
        none()
    }

    async fn run_cell(&self, _: SandboxId, _: CellParams) -> Result<CellStream, Fault> {
        none()
    }

    async fn read_file(&self, _: SandboxId, _: &str) -> Result<FileBody, Fault> {
        none()
    }

    async fn write_file(&self, _: SandboxId, _: WriteParams, _: ByteStream) -> Result<u64, Fault> {
        none()
    }

    async fn list_dir(&self, _: SandboxId, _: &str) -> Result<Vec<FileEntry>, Fault> {
        none()
    }

    async fn stat(&self, _: SandboxId, _: &str) -> Result<FileEntry, Fault> {
        none()
    }

    async fn delete_path(&self, _: SandboxId, _: &str) -> Result<(), Fault> {
        none()
    }

    async fn listening(&self, _: SandboxId) -> Result<Vec<ListeningPort>, Fault> {
        none()
    }

    async fn connect_as(&self, _: SandboxId, _: GuestPort, _: UseKind) -> Result<GuestStream, Fault> {
        none()
    }

    fn events(&self) -> broadcast::Receiver<HostEvent> {
        self.events.subscribe()
    }
}
