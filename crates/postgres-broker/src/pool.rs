//! Idle connections and running requests. The newest idle connection is used first, so that the
//! others can expire. Nothing here waits.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;

use crate::{limits, session::Session};

/// Whose connections may be exchanged for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolKey {
    pub machine: String,
    pub database: String,
    pub login: [u8; 32],
}

/// Idle connections and running requests of all machines.
#[derive(Default)]
pub(crate) struct SessionPool {
    inner: Mutex<PoolInner>,
}

/// A running request. Its machine counts as busy while this lives.
pub(crate) struct RunningRequest {
    pool: Arc<SessionPool>,
    machine: String,
    epoch: u64,
}

#[derive(Default)]
struct PoolInner {
    /// In the order in which they became idle.
    idle: Vec<IdleSession>,
    running: HashMap<String, MachineRequests>,
    running_all: usize,
}

struct IdleSession {
    key: PoolKey,
    session: Session,
    since: Instant,
}

#[derive(Default)]
struct MachineRequests {
    count: usize,
    /// Raised when the machine's connections are forgotten: those in use are not kept either.
    epoch: u64,
}

impl SessionPool {
    /// Counts a request in, or refuses it because there are too many.
    pub fn begin(self: &Arc<Self>, machine: &str) -> Option<RunningRequest> {
        let mut inner = self.lock();
        if inner.running_all >= limits::RUNNING_MAX {
            return None;
        }
        let requests = inner.running.entry(machine.to_owned()).or_default();
        if requests.count >= limits::RUNNING_PER_MACHINE_MAX {
            return None;
        }
        requests.count += 1;
        let epoch = requests.epoch;
        inner.running_all += 1;
        Some(RunningRequest { pool: Arc::clone(self), machine: machine.to_owned(), epoch })
    }

    /// Whether requests of the machine run.
    pub fn has_running(&self, machine: &str) -> bool {
        self.lock().running.contains_key(machine)
    }

    /// Takes the newest idle connection. Those of an older password of the machine are dropped.
    pub fn take(&self, key: &PoolKey) -> Option<Session> {
        let mut inner = self.lock();
        inner.idle.retain(|idle| idle.key.machine != key.machine || idle.key.login == key.login);
        let index = inner.idle.iter().rposition(|idle| idle.key == *key)?;
        Some(inner.idle.remove(index).session)
    }

    /// Drops the idle connections of a machine, and does not keep those in use.
    pub fn forget(&self, machine: &str) {
        let mut inner = self.lock();
        inner.idle.retain(|idle| idle.key.machine != machine);
        if let Some(requests) = inner.running.get_mut(machine) {
            requests.epoch += 1;
        }
    }

    /// Drops the idle connections to one database of a machine.
    pub fn forget_database(&self, machine: &str, database: &str) {
        self.lock().idle.retain(|idle| idle.key.machine != machine || idle.key.database != database);
    }

    /// Drops what was idle for too long or is too old.
    pub fn expire(&self, now: Instant) {
        self.lock().idle.retain(|idle| {
            let (waited, age) = (now.duration_since(idle.since), now.duration_since(idle.session.opened));
            waited < limits::IDLE_AGE_MAX && age < limits::CONNECTION_AGE_MAX
        });
    }

    /// Counts the idle connections of a machine.
    #[cfg(test)]
    pub fn idle(&self, machine: &str) -> usize {
        self.lock().idle.iter().filter(|idle| idle.key.machine == machine).count()
    }

    fn lock(&self) -> MutexGuard<'_, PoolInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningRequest {
    /// Keeps a connection for the next request. The oldest ones make room.
    pub fn keep(&self, key: PoolKey, session: Session) {
        let mut inner = self.pool.lock();
        let is_current = inner.running.get(&self.machine).is_some_and(|requests| requests.epoch == self.epoch);
        if !is_current || session.opened.elapsed() > limits::CONNECTION_AGE_MAX {
            return;
        }
        let same = inner.idle.iter().filter(|idle| idle.key == key).count();
        if same >= limits::IDLE_PER_DATABASE_MAX
            && let Some(oldest) = inner.idle.iter().position(|idle| idle.key == key)
        {
            inner.idle.remove(oldest);
        }
        if inner.idle.len() >= limits::IDLE_MAX {
            inner.idle.remove(0);
        }
        inner.idle.push(IdleSession { key, session, since: Instant::now() });
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let mut inner = self.pool.lock();
        inner.running_all -= 1;
        let Some(requests) = inner.running.get_mut(&self.machine) else { return };
        requests.count -= 1;
        if requests.count == 0 {
            inner.running.remove(&self.machine);
        }
    }
}
