//! A client of QEMU's monitor protocol: one JSON object per line, commands answered in order,
//! events in between. Owns the socket. Knows no machine. It sends only a dozen commands, so there
//! is no typed binding for all of them.

use std::{collections::VecDeque, os::fd::BorrowedFd, path::Path, sync::Mutex, time::Duration};

use pandastack_kit::Scope;
use pandastack_sys::socket::send_with_file;
use pandastack_vmm::MachineError;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest},
    net::{UnixStream, unix::OwnedReadHalf, unix::OwnedWriteHalf},
    sync::{Mutex as AsyncMutex, broadcast, oneshot},
};

use crate::limits::{COMMAND_DEADLINE, QMP_LINE_BYTES_MAX};

type QmpAnswer = Result<Value, String>;

/// A connected monitor.
pub struct Qmp {
    write: AsyncMutex<OwnedWriteHalf>,
    waiting: std::sync::Arc<Mutex<VecDeque<oneshot::Sender<QmpAnswer>>>>,
    events: broadcast::Sender<QmpEvent>,
}

/// An unsolicited message from QEMU.
#[derive(Clone, Debug)]
pub struct QmpEvent {
    pub name: String,
    pub data: Value,
}

impl Qmp {
    /// Connects to a listening monitor socket and leaves negotiation mode.
    pub async fn connect(path: &Path, scope: &Scope) -> Result<Self, MachineError> {
        let io = |cause| MachineError::Io { action: "connect to the monitor".to_owned(), cause };
        let (read, write) = UnixStream::connect(path).await.map_err(io)?.into_split();
        let mut read = BufReader::new(read);
        let mut greeting = String::new();
        (&mut read).take(QMP_LINE_BYTES_MAX as u64).read_line(&mut greeting).await.map_err(io)?;
        if !greeting.contains("\"QMP\"") {
            return Err(MachineError::Dead {
                reason: "the monitor connection was closed before its greeting".to_owned(),
            });
        }
        let (events, _) = broadcast::channel(64);
        let waiting = std::sync::Arc::new(Mutex::new(VecDeque::new()));
        let qmp = Self { write: AsyncMutex::new(write), waiting: waiting.clone(), events: events.clone() };
        scope.start("qmp", read_answers(read, waiting, events));
        qmp.execute("qmp_capabilities", json!({})).await?;
        Ok(qmp)
    }

    /// Subscribes to events from now on.
    pub fn events(&self) -> broadcast::Receiver<QmpEvent> {
        self.events.subscribe()
    }

    /// Sends a command and waits for its answer.
    pub async fn execute(&self, command: &str, arguments: Value) -> Result<Value, MachineError> {
        self.execute_within(command, arguments, COMMAND_DEADLINE).await
    }

    /// Sends a command with an open file.
    pub async fn execute_with(
        &self,
        command: &str,
        arguments: Value,
        file: BorrowedFd<'_>,
    ) -> Result<Value, MachineError> {
        let late =
            MachineError::Deadline { command: command.to_owned(), deadline_ms: COMMAND_DEADLINE.as_millis() as u64 };
        tokio::time::timeout(COMMAND_DEADLINE, self.exchange(command, arguments, Some(file))).await.unwrap_or(Err(late))
    }

    /// Sends a command and waits for its answer up to the given deadline.
    pub async fn execute_within(
        &self,
        command: &str,
        arguments: Value,
        deadline: Duration,
    ) -> Result<Value, MachineError> {
        let late = || MachineError::Deadline { command: command.to_owned(), deadline_ms: deadline.as_millis() as u64 };
        match tokio::time::timeout(deadline, self.exchange(command, arguments, None)).await {
            Ok(answer) => answer,
            Err(_) => Err(late()),
        }
    }

    /// Passes an open file to the process under the given number, until [`Qmp::take_file`]. The
    /// process then needs no path to it.
    pub async fn give_file(&self, file: BorrowedFd<'_>, number: u32) -> Result<(), MachineError> {
        self.execute_with("add-fd", json!({ "fdset-id": number }), file).await.map(drop)
    }

    /// Takes back the file of [`Qmp::give_file`].
    pub async fn take_file(&self, number: u32) -> Result<(), MachineError> {
        self.execute("remove-fd", json!({ "fdset-id": number })).await.map(drop)
    }

    async fn exchange(
        &self,
        command: &str,
        arguments: Value,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<Value, MachineError> {
        let io = |cause| MachineError::Io { action: format!("send {command}"), cause };
        let mut line = json!({ "execute": command, "arguments": arguments }).to_string();
        line.push('\n');
        let (tx, rx) = oneshot::channel();
        {
            let mut write = self.write.lock().await;
            // Queued under the write lock, because answers come in the order of the commands.
            self.waiting.lock().expect("no holder panics").push_back(tx);
            let sent = match file {
                Some(file) => {
                    let socket: &UnixStream = write.as_ref();
                    // The file goes with the first byte that is sent. The rest of the line follows
                    // without it.
                    socket
                        .async_io(Interest::WRITABLE, || send_with_file(socket, line.as_bytes(), file))
                        .await
                        .map_err(io)?
                }
                None => 0,
            };
            write.write_all(&line.as_bytes()[sent..]).await.map_err(io)?;
        }
        match rx.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(reason)) => Err(MachineError::Refused { command: command.to_owned(), reason }),
            Err(_) => Err(MachineError::Dead { reason: "the monitor connection was closed".to_owned() }),
        }
    }
}

async fn read_answers(
    mut read: BufReader<OwnedReadHalf>,
    waiting: std::sync::Arc<Mutex<VecDeque<oneshot::Sender<QmpAnswer>>>>,
    events: broadcast::Sender<QmpEvent>,
) {
    let mut line = String::new();
    loop {
        line.clear();
        match (&mut read).take(QMP_LINE_BYTES_MAX as u64).read_line(&mut line).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let Ok(mut message) = serde_json::from_str::<Value>(&line) else { break };
        if let Some(name) = message["event"].as_str() {
            let _ = events.send(QmpEvent { name: name.to_owned(), data: message["data"].clone() });
            continue;
        }
        let answer = match message.get_mut("return") {
            Some(value) => Ok(value.take()),
            None => Err(message["error"]["desc"].as_str().unwrap_or("no reason given").to_owned()),
        };
        if let Some(tx) = waiting.lock().expect("no holder panics").pop_front() {
            let _ = tx.send(answer);
        }
    }
    // Dropping the senders tells every waiter that the monitor is gone.
    waiting.lock().expect("no holder panics").clear();
}
