//! A guest agent in memory that speaks the guest protocol: a few programs, files in a map, and
//! protocol violations on request. One per fake machine. Tests control and count through the bed's
//! [`GuestScript`].

mod channel;
mod code;
mod connection;
mod files;
mod memory;
mod processes;
mod programs;
mod watching;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use pandastack_vmm_fake::{FakeClock, FakeGuest};
use pandastack_wire_guest::{FrameKind, Rebirth, VolumeDevice};
use tokio::io::DuplexStream;

/// The secret that the sealed fake agent expects.
pub const SEALED_SECRET: &[u8] = b"a sealed agent's secret";

/// How a guest treats its host during the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandshakeBehaviour {
    /// Follows the protocol.
    #[default]
    Good,
    /// Expects another secret than the layer's.
    OtherSecret,
    /// Refuses a rebirth.
    RefusesRebirth,
    /// Reads everything and answers nothing.
    Silent,
    /// Answers with bytes that are not frames.
    Garbage,
    /// Answers the greeting with another frame.
    OffTopic,
    /// Speaks a generation that the host does not know.
    FromTheFuture,
    /// Speaks the last generation without code sessions.
    Older,
    /// Closes the connection at once.
    HangsUp,
}

/// Behaviour and counters of all guests of a bed.
#[derive(Clone, Default)]
pub struct GuestScript {
    pub clock: FakeClock,
    manner: Arc<Mutex<HandshakeBehaviour>>,
    welcomes: Arc<AtomicUsize>,
    sent: Arc<AtomicUsize>,
    flushes: Arc<AtomicUsize>,
    under_way: Arc<AtomicUsize>,
    volumes: Arc<Mutex<BTreeMap<String, VolumeDevice>>>,
    rebirths: Arc<Mutex<Vec<Rebirth>>>,
    hesitation: Arc<Mutex<Duration>>,
    answers_to_lose: Arc<AtomicUsize>,
}

impl GuestScript {
    /// Sets the manner of all later connections.
    pub fn set_behaviour(&self, manner: HandshakeBehaviour) {
        *locked(&self.manner) = manner;
    }

    /// Counts the accepted connections: those with the right secret.
    pub fn welcomes(&self) -> usize {
        self.welcomes.load(Ordering::Relaxed)
    }

    /// Counts the bytes of output that programs have sent.
    pub fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Counts how often guests were asked to flush.
    pub fn flushes(&self) -> usize {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Counts the guests' running work for users: programs, files, cells, watches and readers of
    /// processes.
    pub fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// The last volume message to guests about a path.
    pub fn volume_at(&self, path: &str) -> Option<VolumeDevice> {
        locked(&self.volumes).get(path).cloned()
    }

    /// Returns the rebirths since the last call, in order.
    pub fn take_rebirths(&self) -> Vec<Rebirth> {
        std::mem::take(&mut *locked(&self.rebirths))
    }

    /// Sets a delay of every guest before it answers a rebirth.
    pub fn delay_rebirth(&self, hesitation: Duration) {
        *locked(&self.hesitation) = hesitation;
    }

    /// Loses the next so many answers to a rebirth with their connection, although the rebirth has
    /// happened.
    pub fn lose_rebirth_answers(&self, count: usize) {
        self.answers_to_lose.store(count, Ordering::Relaxed);
    }

    fn loses_answer(&self) -> bool {
        self.answers_to_lose.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Records a rebirth, and waits for the set delay.
    async fn consider(&self, rebirth: Rebirth) {
        locked(&self.rebirths).push(rebirth);
        let hesitation = *locked(&self.hesitation);
        if !hesitation.is_zero() {
            tokio::time::sleep(hesitation).await;
        }
    }

    fn note_volumes(&self, volumes: Vec<VolumeDevice>) {
        locked(&self.volumes).extend(volumes.into_iter().map(|volume| (volume.path.clone(), volume)));
    }

    fn note_quiet(&self, kind: FrameKind) {
        self.flushes.fetch_add(usize::from(kind == FrameKind::Quiesce), Ordering::Relaxed);
    }

    /// Counts one more until the guard is dropped, also by a dying machine.
    fn begin(&self) -> RunningWork {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        RunningWork(self.under_way.clone())
    }

    fn manner(&self) -> HandshakeBehaviour {
        *locked(&self.manner)
    }

    fn note_welcome(&self) {
        self.welcomes.fetch_add(1, Ordering::Relaxed);
    }

    fn note_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// One running piece of work of a guest.
struct RunningWork(Arc<AtomicUsize>);

impl Drop for RunningWork {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The guest of one machine.
pub struct ScriptedGuest {
    script: GuestScript,
    secret: Mutex<Vec<u8>>,
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    processes: processes::FakeProcesses,
}

impl ScriptedGuest {
    /// Makes the guest of a machine that was just restored. Its memory comes from its layer.
    pub fn new(script: GuestScript) -> Self {
        Self {
            script,
            secret: Mutex::new(SEALED_SECRET.to_vec()),
            files: Mutex::default(),
            processes: Default::default(),
        }
    }
}

#[async_trait]
impl FakeGuest for ScriptedGuest {
    async fn serve(&self, link: DuplexStream) {
        connection::serve(self, link).await;
    }

    fn memory(&self) -> Vec<u8> {
        memory::write(&locked(&self.secret), &locked(&self.files))
    }

    fn remember(&self, memory: &[u8]) {
        // A template's memory is empty, so its guest stays new.
        if let Some((secret, files)) = memory::read(memory) {
            (*locked(&self.secret), *locked(&self.files)) = (secret, files);
        }
    }
}

/// Locks a value. Every change is one step, so a panic elsewhere cannot have left it inconsistent.
fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
