//! What all connections share: secret, environment, children, and the system we act on.

use std::{
    cell::{Cell, RefCell},
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd},
    rc::Rc,
};

use pandastack_sys::process;
use pandastack_wire_guest::Variable;
use tokio::sync::Notify;

use crate::{code::Sessions, exec::Reaper, files::Watchers, limits, processes::Processes, rebirth::System};

/// The agent's state. Lives on one thread.
pub struct Agent {
    secret: RefCell<Vec<u8>>,
    env: RefCell<Vec<Variable>>,
    /// Counts rebirths.
    pub(crate) births: Cell<u64>,
    /// Fires a little after each rebirth: connections from before it are dead.
    pub(crate) reborn: Notify,
    pub(crate) reaper: Reaper,
    /// Those that outlive whoever asked for them.
    pub(crate) processes: Processes,
    pub(crate) watchers: Watchers,
    pub(crate) sessions: Sessions,
    pub(crate) system: Box<dyn System>,
    pub(crate) frozen: Cell<bool>,
    pub(crate) thawed: Notify,
    /// Counts freezes, so that a late timer knows whether it is still meant.
    pub(crate) freezes: Cell<u64>,
    /// Pipes that outlived their process and are emptied to nowhere.
    pub(crate) unheard: Cell<usize>,
    /// Port we listen on, which nobody is told about.
    pub(crate) port: u16,
    scratch: RefCell<Box<[u8]>>,
    null: File,
}

impl Agent {
    /// Makes an agent that trusts whoever knows the secret. Must be called on the thread that
    /// serves, before others start.
    pub fn new(secret: Vec<u8>, port: u16, system: Box<dyn System>) -> io::Result<Rc<Self>> {
        process::keep_inherited_descriptors()?;
        Ok(Rc::new(Self {
            secret: RefCell::new(secret),
            env: RefCell::default(),
            births: Cell::new(0),
            reborn: Notify::new(),
            reaper: Reaper::new()?,
            processes: Processes::default(),
            watchers: Watchers::default(),
            sessions: Sessions::default(),
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

    /// Tells whether a secret is the current one, in time that depends on its length only.
    pub(crate) fn knows(&self, offered: &[u8]) -> bool {
        let secret = self.secret.borrow();
        let difference = secret.iter().zip(offered).fold(0, |sum, (ours, theirs)| sum | (ours ^ theirs));
        secret.len() == offered.len() && std::hint::black_box(difference) == 0
    }

    pub(crate) fn replace_secret(&self, secret: Vec<u8>) {
        *self.secret.borrow_mut() = secret;
    }

    pub(crate) fn replace_env(&self, env: Vec<Variable>) {
        *self.env.borrow_mut() = env;
    }

    /// Gives the sandbox's environment.
    pub(crate) fn env(&self) -> Vec<Variable> {
        self.env.borrow().clone()
    }

    /// Lends the one buffer for short reads; it must be given back before the next await.
    pub(crate) fn scratch(&self) -> std::cell::RefMut<'_, Box<[u8]>> {
        self.scratch.borrow_mut()
    }

    pub(crate) fn null(&self) -> BorrowedFd<'_> {
        self.null.as_fd()
    }

    /// Waits until file systems take writes, so that we never block in one that does not.
    pub(crate) async fn writable(&self) {
        while self.frozen.get() {
            self.thawed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebirth::Bystander;

    #[test]
    fn only_the_whole_secret_is_known() {
        let agent = Agent::new(b"secret".to_vec(), 0, Box::new(Bystander::default())).unwrap();
        assert!(agent.knows(b"secret"));
        for wrong in [&b""[..], b"secre", b"secrets", b"Secret", b"secreT"] {
            assert!(!agent.knows(wrong), "{wrong:?}");
        }
        agent.replace_secret(b"other".to_vec());
        assert!(agent.knows(b"other") && !agent.knows(b"secret"));
    }
}
