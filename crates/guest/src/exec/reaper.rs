//! Reaps every ended child: the agent's own, and orphans that it inherits as the first process.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    io,
    os::fd::{AsFd, OwnedFd},
};

use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
};
use pandastack_sys::process;
use tokio::sync::oneshot::{self, Receiver, Sender};

use crate::descriptor::watch;

/// Size of the kernel's `signalfd_siginfo`.
const NOTE_BYTES: usize = 128;

/// Resolves when the process has ended.
pub(crate) type ExitReceiver = Receiver<process::ExitResult>;

/// Processes with a waiter, and the signal descriptor.
pub(crate) struct Reaper {
    waiting: RefCell<BTreeMap<i32, Sender<process::ExitResult>>>,
    signals: RefCell<Option<OwnedFd>>,
}

impl Reaper {
    /// Blocks SIGCHLD for this thread and those it starts, and receives it by descriptor instead.
    pub(crate) fn new() -> io::Result<Self> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        mask.thread_block()?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?
            .as_fd()
            .try_clone_to_owned()?;
        Ok(Self { waiting: RefCell::default(), signals: RefCell::new(Some(signals)) })
    }

    /// Returns a future of the process's end. Call it right after the start, with no await in
    /// between.
    pub(crate) fn expect(&self, process: i32) -> ExitReceiver {
        let (tx, rx) = oneshot::channel();
        self.waiting.borrow_mut().insert(process, tx);
        rx
    }

    /// Reaps children for ever.
    pub(crate) async fn run(&self) {
        let signals = self.signals.take().expect("the reaper runs once");
        let signals = watch(signals).expect("a signal descriptor can be watched");
        let mut note = [0; NOTE_BYTES];
        loop {
            self.reap();
            if let Ok(mut ready) = signals.readable().await {
                // One signal may stand for several ended children, so its contents are ignored.
                while let Ok(Ok(_)) = ready.try_io(|signals| Ok(nix::unistd::read(signals.get_ref(), &mut note)?)) {}
            }
        }
    }

    fn reap(&self) {
        while let Some((process, ended)) = process::reap_any() {
            if let Some(waiter) = self.waiting.borrow_mut().remove(&process) {
                let _ = waiter.send(ended);
            }
        }
    }
}
