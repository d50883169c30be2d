//! A host that runs nothing: it remembers what it was asked, fails when told to, and waits at a gate when told to.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use pandastack_model::{Fault, SandboxId, SandboxState, Tier};
use pandastack_wire_fleet::{
    ByteStream, Ensure, ExecAsk, ExecSession, FileBody, FileEntry, HostEvent, HostPort, HostStatus, SandboxView,
    TemplateView, WriteAsk,
};
use tokio::sync::{Semaphore, broadcast};

pub struct StubHost {
    pub here: Mutex<BTreeMap<SandboxId, SandboxView>>,
    /// What the next `ensure` fails with.
    pub fail: Mutex<Option<Fault>>,
    /// Whether `ensure` waits for a permit of the gate.
    pub gated: AtomicBool,
    pub gate: Semaphore,
    pub events: broadcast::Sender<HostEvent>,
}

impl Default for StubHost {
    fn default() -> Self {
        Self {
            here: Mutex::default(),
            fail: Mutex::default(),
            gated: AtomicBool::new(false),
            gate: Semaphore::new(0),
            events: broadcast::channel(16).0,
        }
    }
}

impl StubHost {
    pub fn count(&self) -> usize {
        self.here.lock().unwrap().len()
    }
}

pub fn view(id: SandboxId) -> SandboxView {
    SandboxView {
        id,
        state: SandboxState::Running,
        isolation: Tier::Fake,
        cpus: 2,
        memory_mib: 512,
        disk_mib: 1024,
        guest_ip: "10.0.0.2".into(),
        boot: Duration::from_millis(12),
        boot_mode: "standby",
    }
}

#[async_trait]
impl HostPort for StubHost {
    async fn ensure(&self, ask: Ensure) -> Result<SandboxView, Fault> {
        if self.gated.load(Ordering::SeqCst) {
            self.gate.acquire().await.unwrap().forget();
        }
        if let Some(fault) = self.fail.lock().unwrap().take() {
            return Err(fault);
        }
        let view = view(ask.id);
        self.here.lock().unwrap().insert(ask.id, view.clone());
        Ok(view)
    }

    async fn remove(&self, id: SandboxId) -> Result<(), Fault> {
        self.here.lock().unwrap().remove(&id);
        Ok(())
    }

    async fn observe(&self, id: SandboxId) -> Option<SandboxView> {
        self.here.lock().unwrap().get(&id).cloned()
    }

    async fn observe_all(&self) -> Vec<SandboxView> {
        self.here.lock().unwrap().values().cloned().collect()
    }

    async fn status(&self) -> HostStatus {
        HostStatus { tier: Tier::Fake, sandboxes: self.count(), standby: 0 }
    }

    async fn templates(&self) -> Vec<TemplateView> {
        let template = |name: &str| TemplateView {
            name: name.into(),
            layer: "lyr_x".into(),
            memory_mib: 512,
            cpus: 2,
            disk_mib: 1024,
        };
        vec![template("mini"), template("base")]
    }

    async fn exec(&self, _: SandboxId, _: ExecAsk) -> Result<ExecSession, Fault> {
        Err(Fault::bug("not control's business"))
    }

    async fn read_file(&self, _: SandboxId, _: &str) -> Result<FileBody, Fault> {
        Err(Fault::bug("not control's business"))
    }

    async fn write_file(&self, _: SandboxId, _: WriteAsk, _: ByteStream) -> Result<u64, Fault> {
        Err(Fault::bug("not control's business"))
    }

    async fn list_dir(&self, _: SandboxId, _: &str) -> Result<Vec<FileEntry>, Fault> {
        Err(Fault::bug("not control's business"))
    }

    async fn stat(&self, _: SandboxId, _: &str) -> Result<FileEntry, Fault> {
        Err(Fault::bug("not control's business"))
    }

    async fn delete_path(&self, _: SandboxId, _: &str) -> Result<(), Fault> {
        Err(Fault::bug("not control's business"))
    }

    fn events(&self) -> broadcast::Receiver<HostEvent> {
        self.events.subscribe()
    }
}
