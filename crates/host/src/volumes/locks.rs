//! Owns one lock per volume, for growing it or reporting its size to a machine. A machine sets the
//! file to the reported size, even if that is smaller. So the file must not grow between reading
//! its size and the machine's answer.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use pandastack_model::{ByteSize, VolumeId};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// The locks of all volumes in use.
#[derive(Debug, Default)]
pub struct VolumeLocks {
    queues: Mutex<HashMap<VolumeId, Weak<AsyncMutex<()>>>>,
}

/// The file of one volume, and the lock for changing or reporting its size. Clones share the lock.
#[derive(Clone, Debug)]
pub struct VolumeFile {
    file: PathBuf,
    queue: Arc<AsyncMutex<()>>,
}

/// The held lock of a volume. The size does not change until it is dropped.
#[derive(Debug)]
pub struct VolumeLock {
    file: PathBuf,
    _guard: OwnedMutexGuard<()>,
}

impl VolumeLocks {
    /// Returns a volume's disk. Removes locks that are no longer in use.
    pub fn disk(&self, volume: VolumeId, file: PathBuf) -> VolumeFile {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(&volume).and_then(Weak::upgrade) {
            return VolumeFile { file, queue };
        }
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = Arc::default();
        queues.insert(volume, Arc::downgrade(&queue));
        VolumeFile { file, queue }
    }
}

impl VolumeFile {
    /// Returns the path of the volume's file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Waits for the lock.
    pub async fn turn(&self) -> VolumeLock {
        VolumeLock { file: self.file.clone(), _guard: self.queue.clone().lock_owned().await }
    }
}

impl VolumeLock {
    /// Returns the size of the volume.
    pub fn size(&self) -> io::Result<ByteSize> {
        Ok(ByteSize::new(std::fs::metadata(&self.file)?.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_volume_has_one_queue_while_anybody_stands_in_it() {
        let (turns, volume) = (VolumeLocks::default(), VolumeId::random());
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
