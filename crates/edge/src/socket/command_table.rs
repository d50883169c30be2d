//! The commands in flight on one socket, by the id that the client chose. An id is in use from its
//! start frame until its terminal frame is queued. Both happen under one lock, so no frame of a
//! later command with the same id can overtake the terminal frame.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::extract::ws::Message;
use pandastack_wire_fleet::ExecControl;
use tokio::sync::{mpsc, oneshot};

use crate::limits::{SOCKET_COMMANDS_MAX, SOCKET_STDIN_QUEUE};

/// The commands in flight. Clones share one table.
#[derive(Clone, Default)]
pub struct CommandTable(Arc<Mutex<HashMap<String, CommandEntry>>>);

struct CommandEntry {
    /// Ends the command with this text in its error frame. Taken when used.
    stop: Option<oneshot::Sender<String>>,
    control: mpsc::Sender<ExecControl>,
    live_stdin: bool,
}

/// The command's side of its entry.
pub struct CommandHandle {
    pub stop: oneshot::Receiver<String>,
    pub control: mpsc::Receiver<ExecControl>,
}

/// Why an id cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum IdRefusal {
    InUse,
    TooMany,
}

impl CommandTable {
    /// Reserves an id for a new command.
    pub fn take(&self, id: &str, live_stdin: bool) -> Result<CommandHandle, IdRefusal> {
        let mut ids = self.lock();
        if ids.contains_key(id) {
            return Err(IdRefusal::InUse);
        }
        if ids.len() >= SOCKET_COMMANDS_MAX {
            return Err(IdRefusal::TooMany);
        }
        let ((stop, stop_rx), (control, control_rx)) = (oneshot::channel(), mpsc::channel(SOCKET_STDIN_QUEUE));
        ids.insert(id.to_owned(), CommandEntry { stop: Some(stop), control, live_stdin });
        Ok(CommandHandle { stop: stop_rx, control: control_rx })
    }

    /// Releases an id and queues its terminal frame.
    pub fn end(&self, id: &str, place: mpsc::Permit<'_, Message>, last: Message) {
        let mut ids = self.lock();
        ids.remove(id);
        place.send(last);
    }

    /// Releases an id whose command was never started.
    pub fn forget(&self, id: &str) {
        self.lock().remove(id);
    }

    /// Ends one command. Unknown ids and repeated calls are ignored.
    pub fn stop(&self, id: &str, why: &str) {
        if let Some(stop) = self.lock().get_mut(id).and_then(|entry| entry.stop.take()) {
            let _ = stop.send(why.to_owned());
        }
    }

    /// Ends every command with a reason for the client.
    pub fn stop_all(&self, why: &str) {
        for stop in self.lock().values_mut().filter_map(|entry| entry.stop.take()) {
            let _ = stop.send(why.to_owned());
        }
    }

    /// Ends every command without a terminal frame.
    pub fn drop_all(&self) {
        self.lock().clear();
    }

    /// Returns the sender to a command's process; `None` if the command is not in flight.
    pub fn control(&self, id: &str) -> Option<mpsc::Sender<ExecControl>> {
        self.lock().get(id).map(|entry| entry.control.clone())
    }

    /// Tells whether a command takes input; `None` if it is not in flight.
    pub fn takes_stdin(&self, id: &str) -> Option<bool> {
        self.lock().get(id).map(|entry| entry.live_stdin)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, CommandEntry>> {
        // Every change under this lock is a single step, so a panic cannot leave it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_taken_once_and_only_so_many_are() {
        let ids = CommandTable::default();
        let first = ids.take("0", false).unwrap();
        assert_eq!(ids.take("0", false).err(), Some(IdRefusal::InUse));
        let _rest: Vec<_> = (1..SOCKET_COMMANDS_MAX).map(|id| ids.take(&id.to_string(), true).unwrap()).collect();
        assert_eq!(ids.take("more", false).err(), Some(IdRefusal::TooMany));
        assert_eq!((ids.takes_stdin("0"), ids.takes_stdin("1"), ids.takes_stdin("x")), (Some(false), Some(true), None));
        ids.stop("0", "cancelled");
        ids.stop("0", "again");
        ids.stop("x", "cancelled");
        assert_eq!(first.stop.blocking_recv().as_deref(), Ok("cancelled"));
        let (tell, mut told) = mpsc::channel(1);
        ids.end("0", tell.try_reserve().unwrap(), Message::text("last"));
        assert_eq!(told.try_recv().unwrap(), Message::text("last"));
        let second = ids.take("0", false).unwrap();
        ids.drop_all();
        assert!(second.stop.blocking_recv().is_err());
    }
}
