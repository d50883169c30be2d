//! A guest agent in memory that speaks the guest protocol: a handful of programs, files in a map,
//! and bad manners on request. One per fake machine; what tests steer and count is the bed's one
//! [`Script`].

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
use pandastack_wire_guest::{Kind, Rebirth, Volume};
use tokio::io::DuplexStream;

/// The secret that the sealed fake agent expects.
pub const SEALED_SECRET: &[u8] = b"a sealed agent's secret";

/// How a guest treats its host during the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// As the protocol has it.
    #[default]
    Good,
    /// Expects another secret than the layer says.
    OtherSecret,
    /// Does not take a new life on.
    RefusesRebirth,
    /// Reads everything, answers nothing.
    Silent,
    /// Answers with bytes that are no frames.
    Garbage,
    /// Answers the greeting with something else.
    OffTopic,
    /// Speaks a generation that the host cannot know.
    FromTheFuture,
    /// Speaks the last generation without code sessions.
    Older,
    /// Closes the connection at once.
    HangsUp,
}

/// What all guests of a bed do, and what they did.
#[derive(Clone, Default)]
pub struct Script {
    pub clock: FakeClock,
    manner: Arc<Mutex<Manner>>,
    welcomes: Arc<AtomicUsize>,
    sent: Arc<AtomicUsize>,
    flushes: Arc<AtomicUsize>,
    under_way: Arc<AtomicUsize>,
    volumes: Arc<Mutex<BTreeMap<String, Volume>>>,
    rebirths: Arc<Mutex<Vec<Rebirth>>>,
    hesitation: Arc<Mutex<Duration>>,
    answers_to_lose: Arc<AtomicUsize>,
}

impl Script {
    /// Sets the manner of every connection from now on.
    pub fn behave(&self, manner: Manner) {
        *locked(&self.manner) = manner;
    }

    /// Counts the connections that were accepted: the secret was right.
    pub fn welcomes(&self) -> usize {
        self.welcomes.load(Ordering::Relaxed)
    }

    /// Counts the bytes of output that programs have sent.
    pub fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Counts how often guests were asked to write everything out.
    pub fn flushes(&self) -> usize {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Counts what guests are at work on for users: programs, files, cells, watches and readers of
    /// processes.
    pub fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// What guests were told last about the volume at a path.
    pub fn volume_at(&self, path: &str) -> Option<Volume> {
        locked(&self.volumes).get(path).cloned()
    }

    /// Gives the new lives that guests were told of since the last time, in order.
    pub fn take_rebirths(&self) -> Vec<Rebirth> {
        std::mem::take(&mut *locked(&self.rebirths))
    }

    /// Lets every guest think so long before it answers to a new life.
    pub fn hesitate(&self, hesitation: Duration) {
        *locked(&self.hesitation) = hesitation;
    }

    /// Lets the next so many answers to a new life be lost with their connection, though the life
    /// has begun.
    pub fn lose_answers(&self, count: usize) {
        self.answers_to_lose.store(count, Ordering::Relaxed);
    }

    fn loses_answer(&self) -> bool {
        self.answers_to_lose.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Takes note of a new life, and thinks.
    async fn consider(&self, rebirth: Rebirth) {
        locked(&self.rebirths).push(rebirth);
        let hesitation = *locked(&self.hesitation);
        if !hesitation.is_zero() {
            tokio::time::sleep(hesitation).await;
        }
    }

    fn note_volumes(&self, volumes: Vec<Volume>) {
        locked(&self.volumes).extend(volumes.into_iter().map(|volume| (volume.path.clone(), volume)));
    }

    fn note_quiet(&self, kind: Kind) {
        self.flushes.fetch_add(usize::from(kind == Kind::Quiesce), Ordering::Relaxed);
    }

    /// Counts one more until what is given is dropped, which a dying machine does as well.
    fn begin(&self) -> Work {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        Work(self.under_way.clone())
    }

    fn manner(&self) -> Manner {
        *locked(&self.manner)
    }

    fn note_welcome(&self) {
        self.welcomes.fetch_add(1, Ordering::Relaxed);
    }

    fn note_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// One thing that a guest is at work on.
struct Work(Arc<AtomicUsize>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The guest of one machine.
pub struct ScriptedGuest {
    script: Script,
    secret: Mutex<Vec<u8>>,
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    processes: processes::Processes,
}

impl ScriptedGuest {
    /// Makes the guest of a machine that was just restored; what it remembers comes from its layer.
    pub fn new(script: Script) -> Self {
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
        // A template's memory is empty: its guest is as new.
        if let Some((secret, files)) = memory::read(memory) {
            (*locked(&self.secret), *locked(&self.files)) = (secret, files);
        }
    }
}

/// Locks a value whose every change is one step, so that a panic elsewhere cannot have left it half
/// done.
fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
