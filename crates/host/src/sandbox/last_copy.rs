//! The memory of a machine's last seal, if that was much. The next seal starts from it and copies
//! only what was written since. An open file keeps its blocks when its layer is deleted, so the
//! copy is forgotten after a while.

use std::{
    fs::File,
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pandastack_kit::Scope;
use pandastack_vmm::AheadCopy;

/// How long a copy is kept without a next seal.
const KEPT_MAX: Duration = Duration::from_secs(120);

/// The copy of one machine, if there is one.
#[derive(Clone, Default)]
pub struct LastCopy(Arc<Mutex<KeptCopy>>);

#[derive(Default)]
struct KeptCopy {
    /// How often a copy was kept. A timer forgets only its own.
    number: u64,
    copy: Option<CopiedMemory>,
}

/// Complete memory of one moment, and what tells which of it was written since.
pub struct CopiedMemory {
    file: File,
    pub ahead: Arc<dyn AheadCopy>,
}

impl CopiedMemory {
    /// Path of the file, also when it has been deleted.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}

impl LastCopy {
    /// Takes the copy. Whatever happens to the seal, it cannot be used twice.
    pub fn take(&self) -> Option<CopiedMemory> {
        self.kept().copy.take()
    }

    /// Keeps the memory file of a finished layer.
    pub fn keep(&self, memory: &Path, ahead: Arc<dyn AheadCopy>, scope: &Scope) -> io::Result<()> {
        let copy = CopiedMemory { file: File::open(memory)?, ahead };
        let number = {
            let mut kept = self.kept();
            kept.number += 1;
            kept.copy = Some(copy);
            kept.number
        };
        let (copies, scope_of_end, stop) = (Arc::downgrade(&self.0), scope.clone(), scope.token());
        scope.start("forget copied memory", async move {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(KEPT_MAX) => {}
            }
            let Some(copies) = copies.upgrade() else { return };
            // The kernel walks all memory of the machine.
            let end = move || drop(Self(copies).forget(number));
            let _ = scope_of_end.block("forget copied memory", end).await;
        });
        Ok(())
    }

    fn forget(&self, number: u64) -> Option<CopiedMemory> {
        let mut kept = self.kept();
        if kept.number == number { kept.copy.take() } else { None }
    }

    fn kept(&self) -> MutexGuard<'_, KeptCopy> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
