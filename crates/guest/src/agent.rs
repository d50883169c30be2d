//! State shared by all connections: secret, environment, children, and the system acted on.

use std::{
    cell::{Cell, RefCell},
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd},
    rc::Rc,
};

use pandastack_sys::process;
use pandastack_wire_guest::EnvVariable;
use tokio::sync::Notify;

use crate::{
    code::{KernelSessions, WarmKernels},
    exec::Reaper,
    files::WatchCount,
    limits,
    processes::ProcessTable,
    rebirth::System,
};

/// The agent's state. It stays on one thread.
pub struct Agent {
    secret: RefCell<Vec<u8>>,
    env: RefCell<Vec<EnvVariable>>,
    /// Counts rebirths.
    pub(crate) births: Cell<u64>,
    /// Fires shortly after each rebirth: connections from before it are dead.
    pub(crate) reborn: Notify,
    pub(crate) reaper: Reaper,
    /// Processes that outlive their callers.
    pub(crate) processes: ProcessTable,
    pub(crate) watchers: WatchCount,
    pub(crate) sessions: KernelSessions,
    pub(crate) warm: WarmKernels,
    pub(crate) system: Box<dyn System>,
    pub(crate) frozen: Cell<bool>,
    pub(crate) thawed: Notify,
    /// Counts freezes, so that a timer can tell whether its freeze is still the current one.
    pub(crate) freezes: Cell<u64>,
    /// Number of pipes that outlived their process and whose output is discarded.
    pub(crate) unheard: Cell<usize>,
    /// The agent's own port, left out of port lists.
    pub(crate) port: u16,
    scratch: RefCell<Box<[u8]>>,
    null: File,
}

impl Agent {
    /// Makes an agent that accepts callers with the secret. Call it on the serving thread, before
    /// other threads start.
    pub fn new(secret: Vec<u8>, port: u16, system: Box<dyn System>) -> io::Result<Rc<Self>> {
        process::keep_inherited_descriptors()?;
        Ok(Rc::new(Self {
            secret: RefCell::new(secret),
            env: RefCell::default(),
            births: Cell::new(0),
            reborn: Notify::new(),
            reaper: Reaper::new()?,
            processes: ProcessTable::default(),
            watchers: WatchCount::default(),
            sessions: KernelSessions::default(),
            warm: WarmKernels::default(),
            system,
            frozen: Cell::new(false),
            thawed: Notify::new(),
            freezes: Cell::new(0),
            unheard: Cell::new(0),
            port,
            scratch: RefCell::new(vec![0; limits::OUTPUT_CHUNK_BYTES].into_boxed_slice()),
            null: File::options().read(true).write(true).open("/dev/null")?,
        }))
    }

    /// Compares a secret with the current one, in time that depends on its length only.
    pub(crate) fn knows(&self, offered: &[u8]) -> bool {
        let secret = self.secret.borrow();
        let difference = secret.iter().zip(offered).fold(0, |sum, (ours, theirs)| sum | (ours ^ theirs));
        secret.len() == offered.len() && std::hint::black_box(difference) == 0
    }

    pub(crate) fn replace_secret(&self, secret: Vec<u8>) {
        *self.secret.borrow_mut() = secret;
    }

    pub(crate) fn replace_env(&self, env: Vec<EnvVariable>) {
        *self.env.borrow_mut() = env;
    }

    /// Returns the sandbox's environment.
    pub(crate) fn env(&self) -> Vec<EnvVariable> {
        self.env.borrow().clone()
    }

    /// Lends the shared buffer for short reads. Return it before the next await.
    pub(crate) fn scratch(&self) -> std::cell::RefMut<'_, Box<[u8]>> {
        self.scratch.borrow_mut()
    }

    pub(crate) fn null(&self) -> BorrowedFd<'_> {
        self.null.as_fd()
    }

    /// Waits while file systems are frozen, so that a write never blocks the serving thread.
    pub(crate) async fn writable(&self) {
        while self.frozen.get() {
            self.thawed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebirth::RecordingSystem;

    #[test]
    fn only_the_whole_secret_is_known() {
        let agent = Agent::new(b"secret".to_vec(), 0, Box::new(RecordingSystem::default())).unwrap();
        assert!(agent.knows(b"secret"));
        for wrong in [&b""[..], b"secre", b"secrets", b"Secret", b"secreT"] {
            assert!(!agent.knows(wrong), "{wrong:?}");
        }
        agent.replace_secret(b"other".to_vec());
        assert!(agent.knows(b"other") && !agent.knows(b"secret"));
    }
}
