//! One at a time grows a volume or tells a machine of its size. A machine that is told of a size
//! makes its file that large, also when that is smaller; so nobody may grow the file between the
//! look at its size and the machine's answer.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use pandastack_model::{Bytes, VolumeId};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// The queues of all volumes that somebody uses.
#[derive(Debug, Default)]
pub struct Turns {
    queues: Mutex<HashMap<VolumeId, Weak<AsyncMutex<()>>>>,
}

/// The file of one volume and the queue of those who change or tell its size. Clones stand in the
/// same queue.
#[derive(Clone, Debug)]
pub struct Disk {
    file: PathBuf,
    queue: Arc<AsyncMutex<()>>,
}

/// Somebody's turn, until it is dropped. Who has it may rely on the size.
#[derive(Debug)]
pub struct Turn {
    file: PathBuf,
    _guard: OwnedMutexGuard<()>,
}

impl Turns {
    /// Gives a volume's disk. Queues that nobody knows any more are forgotten here.
    pub fn disk(&self, volume: VolumeId, file: PathBuf) -> Disk {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(&volume).and_then(Weak::upgrade) {
            return Disk { file, queue };
        }
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = Arc::default();
        queues.insert(volume, Arc::downgrade(&queue));
        Disk { file, queue }
    }
}

impl Disk {
    /// Where the volume's file lies.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Waits for its turn.
    pub async fn turn(&self) -> Turn {
        Turn { file: self.file.clone(), _guard: self.queue.clone().lock_owned().await }
    }
}

impl Turn {
    /// Looks how large the volume is.
    pub fn size(&self) -> io::Result<Bytes> {
        Ok(Bytes::new(std::fs::metadata(&self.file)?.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_volume_has_one_queue_while_anybody_stands_in_it() {
        let (turns, volume) = (Turns::default(), VolumeId::random());
        let disk = |volume| turns.disk(volume, PathBuf::new());
        let first = disk(volume);
        let turn = first.turn().await;
        assert!(disk(volume).queue.try_lock().is_err(), "two have their turn at the same volume");
        assert!(disk(VolumeId::random()).queue.try_lock().is_ok(), "one volume waits for another");
        drop(first);
        assert!(disk(volume).queue.try_lock().is_err(), "a turn was forgotten while somebody had it");
        drop(turn);
        assert!(disk(volume).queue.try_lock().is_ok());
        disk(VolumeId::random());
        assert_eq!(turns.queues.lock().unwrap().len(), 1, "queues pile up");
    }
}
