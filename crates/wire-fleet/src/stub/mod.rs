//! A host for tests that runs nothing. It records requests, moves sandboxes through their states
//! like a real host, and fails or waits on demand. Only tests enable the feature `stub`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod files;
mod orders;
mod played;
mod port;
mod processes;
mod sandboxes;
mod volumes;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
};

use pandastack_model::{ByteSize, Egress, ExecDefaults, Fault, LayerId, SandboxId, Tier, VolumeId};
use tokio::sync::{broadcast, mpsc};

pub use files::{StubFile, file_entry};
pub use orders::StubGate;
pub use played::{PlayedCell, PlayedCommand, PlayedConnection};
pub use processes::process_view;

use crate::{
    AuditReport, ChangeCause, CodeSessionView, EnsureParams, ExecEvent, ExecParams, FileChange, FileEntry, HostEvent,
    IdlePolicy, LayerHold, ListeningPort, MachineFact, OutputEvent, ProcessView, SandboxView, SpawnParams,
    TemplateView,
};

/// How many events wait for a subscriber before it misses some.
const EVENTS_MAX: usize = 64;

/// Items of one stream that a test has prepared.
pub type PreparedItems<T> = Vec<Result<T, Fault>>;

/// A host without machines. Public fields hold its state: tests prepare and inspect them.
pub struct StubHost {
    /// The sandboxes on this host.
    pub sandboxes: Mutex<BTreeMap<SandboxId, SandboxView>>,
    /// The request that started each sandbox, kept after its end.
    pub ensured: Mutex<BTreeMap<SandboxId, EnsureParams>>,
    /// The sealed layers, and who keeps each of them.
    pub layers: Mutex<BTreeMap<LayerId, LayerHold>>,
    /// Command defaults of sandboxes made from a layer.
    pub layer_defaults: Mutex<BTreeMap<LayerId, ExecDefaults>>,
    /// The templates of this host.
    pub templates: Mutex<Vec<TemplateView>>,
    /// The size of each volume.
    pub volumes: Mutex<BTreeMap<VolumeId, ByteSize>>,
    /// The last egress policy that was set for each sandbox.
    pub egress: Mutex<BTreeMap<SandboxId, Egress>>,
    /// The last lifecycle that was set for each sandbox.
    pub lifecycles: Mutex<BTreeMap<SandboxId, IdlePolicy>>,
    /// The answer to an audit.
    pub audit_report: Mutex<AuditReport>,
    pub tier: Mutex<Tier>,
    /// Ports that every guest listens on.
    pub listening: Mutex<Vec<ListeningPort>>,
    pub events: broadcast::Sender<HostEvent>,
    /// Where requests that change a sandbox wait.
    pub gate: StubGate,
    /// Requests about processes and folders, as text. Plain reads are left out.
    pub calls: Mutex<Vec<String>>,
    /// Every command that was run, and its sandbox.
    pub executed: Mutex<Vec<(SandboxId, ExecParams)>>,
    /// Every background process that was requested.
    pub spawned: Mutex<Vec<SpawnParams>>,
    /// Output for the next attaches. Without any, a process says its own command.
    pub output: Mutex<VecDeque<PreparedItems<OutputEvent>>>,
    /// Every file by its path. All sandboxes share them.
    pub files: Mutex<BTreeMap<String, StubFile>>,
    /// Faults that ended the bodies of broken uploads.
    pub broken_uploads: Mutex<Vec<Fault>>,
    /// The entries of every folder.
    pub listing: Mutex<Vec<FileEntry>>,
    /// The names in every recursive listing.
    pub walked: Mutex<Vec<String>>,
    /// Changes for the next watches. A watch stays silent after its last change.
    pub changes: Mutex<VecDeque<PreparedItems<Vec<FileChange>>>>,
    /// Facts about usage, in the order of their revisions. Tests add them.
    pub machine_facts: Mutex<Vec<MachineFact>>,
    /// The open code sessions, oldest first.
    pub sessions: Mutex<Vec<CodeSessionView>>,
    orders: orders::OrderedFaults,
    players: played::PlayedQueues,
    hung: Mutex<Vec<mpsc::Sender<ExecEvent>>>,
    /// Has one more reference for each presence.
    present: Arc<()>,
    running: Mutex<BTreeMap<SandboxId, Vec<ProcessView>>>,
    sealed: Mutex<BTreeMap<LayerId, Vec<ProcessView>>>,
    cause: Mutex<fn() -> ChangeCause>,
}

/// A template of a host.
pub fn stub_template(name: &str) -> TemplateView {
    TemplateView { name: name.into(), layer: "lyr_x".into(), memory_mib: 512, cpus: 2, disk_mib: 1024 }
}

impl Default for StubHost {
    fn default() -> Self {
        Self {
            sandboxes: Mutex::default(),
            ensured: Mutex::default(),
            layers: Mutex::default(),
            layer_defaults: Mutex::default(),
            templates: Mutex::new(["mini", "base"].map(stub_template).into()),
            volumes: Mutex::default(),
            egress: Mutex::default(),
            lifecycles: Mutex::default(),
            audit_report: Mutex::default(),
            tier: Mutex::new(Tier::Fake),
            listening: Mutex::default(),
            events: broadcast::Sender::new(EVENTS_MAX),
            gate: StubGate::default(),
            calls: Mutex::default(),
            executed: Mutex::default(),
            spawned: Mutex::default(),
            output: Mutex::default(),
            files: Mutex::default(),
            broken_uploads: Mutex::default(),
            listing: Mutex::new(vec![file_entry("b"), file_entry("a")]),
            walked: Mutex::default(),
            changes: Mutex::default(),
            machine_facts: Mutex::default(),
            sessions: Mutex::default(),
            orders: orders::OrderedFaults::default(),
            players: played::PlayedQueues::default(),
            hung: Mutex::default(),
            present: Arc::default(),
            running: Mutex::default(),
            sealed: Mutex::default(),
            cause: Mutex::new(|| None),
        }
    }
}

impl StubHost {
    /// Sets how the host finds the request that causes a change.
    pub fn set_cause(&self, cause: fn() -> ChangeCause) {
        *self.cause.lock().unwrap() = cause;
    }

    /// Returns the recorded calls of one verb.
    pub fn calls_of(&self, verb: &str) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|call| call.split(' ').next() == Some(verb)).cloned().collect()
    }

    fn record(&self, call: String) {
        self.calls.lock().unwrap().push(call);
    }
}
