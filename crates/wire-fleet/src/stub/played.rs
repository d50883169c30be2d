//! Commands, cells and connections. A test may play the guest's side of each of them; without a
//! player the stub answers commands by a small script and refuses the others.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use pandastack_model::{CodeLanguage, CodeSessionId, Fault, FaultKind, GuestPort, SandboxId};
use tokio::{
    io::DuplexStream,
    sync::mpsc::{self, Receiver, Sender},
};

use super::StubHost;
use crate::{
    ByteStream, CellEvent, CellParams, CellStream, CodeSessionView, ConsoleRange, ExecControl, ExecEvent, ExecParams,
    ExecSession, GuestStream, Presence, Program,
};

/// How many events a command or a cell may be ahead of its reader.
const WINDOW: usize = 4;

/// Buffer size of a connection to a port.
const STREAM_BYTES: usize = 64 * 1024;

/// How many commands or cells wait for the test. A further start waits.
const PLAYED_MAX: usize = 8;

/// How many connections wait for the test.
const CONNECTIONS_MAX: usize = 256;

/// The guest's end of a command: the request, and the channels to play it.
pub struct PlayedCommand {
    pub ask: ExecParams,
    pub events: Sender<ExecEvent>,
    pub control: Receiver<ExecControl>,
}

impl PlayedCommand {
    /// Sends events of the command.
    pub async fn play(&self, events: impl IntoIterator<Item = ExecEvent>) {
        for event in events {
            self.events.send(event).await.unwrap();
        }
    }
}

/// The guest's end of a cell.
pub struct PlayedCell {
    pub ask: CellParams,
    pub events: Sender<CellEvent>,
}

/// The guest's end of a connection to a port. The test is the program that listens.
pub struct PlayedConnection {
    pub id: SandboxId,
    pub port: GuestPort,
    pub stream: DuplexStream,
}

/// The queues to a test that plays the guest.
#[derive(Default)]
pub(super) struct PlayedQueues {
    commands: Mutex<Option<Sender<PlayedCommand>>>,
    cells: Mutex<Option<Sender<PlayedCell>>>,
    connections: Mutex<Option<Sender<PlayedConnection>>>,
    console: Mutex<Option<PlayedConsole>>,
}

/// Existing output of a console, and the channel of new output.
type PlayedConsole = (Vec<u8>, Receiver<Vec<u8>>);

impl StubHost {
    /// From now on the caller plays every command.
    pub fn play_commands(&self) -> Receiver<PlayedCommand> {
        open_queue(&self.players.commands, PLAYED_MAX)
    }

    /// From now on the caller plays every cell.
    pub fn play_cells(&self) -> Receiver<PlayedCell> {
        open_queue(&self.players.cells, PLAYED_MAX)
    }

    /// From now on the caller accepts every connection to a port.
    pub fn accept_connections(&self) -> Receiver<PlayedConnection> {
        open_queue(&self.players.connections, CONNECTIONS_MAX)
    }

    /// Sets the console's existing output for one reader. New output goes into the channel.
    pub fn set_console(&self, past: &str) -> Sender<Vec<u8>> {
        let (new_output, receiver) = mpsc::channel(PLAYED_MAX);
        *self.players.console.lock().unwrap() = Some((past.as_bytes().to_vec(), receiver));
        new_output
    }

    /// Returns the number of commands that hang.
    pub fn hung_commands(&self) -> usize {
        self.hung.lock().unwrap().len()
    }

    /// Returns the number of presences that are held.
    pub fn presences(&self) -> usize {
        Arc::strong_count(&self.present) - 1
    }

    pub(super) fn presence(&self) -> Presence {
        Presence::new(self.present.clone())
    }

    pub(super) async fn run_command(&self, id: SandboxId, ask: ExecParams) -> Result<ExecSession, Fault> {
        self.executed.lock().unwrap().push((id, ask.clone()));
        let player = self.players.commands.lock().unwrap().clone();
        let Some(player) = player else {
            return Ok(self.run_script(&ask.program));
        };
        let ((event_tx, events), (control, control_rx)) = (mpsc::channel(WINDOW), mpsc::channel(WINDOW));
        give(&player, PlayedCommand { ask, events: event_tx, control: control_rx }).await?;
        Ok(ExecSession { events, control })
    }

    /// Understands the lines `say WORDS`, `exit CODE` and `hang`. Anything else succeeds.
    fn run_script(&self, program: &Program) -> ExecSession {
        let text = match program {
            Program::Shell(text) => text.as_str(),
            Program::Argv(argv) | Program::Code(_, argv) => argv.last().map_or("", String::as_str),
        };
        let (mut said, mut code, mut hangs) = (VecDeque::new(), 0, false);
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("say", words)) => said.push_back(ExecEvent::Stdout(format!("{words}\n").into_bytes().into())),
                Some(("exit", number)) => code = number.parse().unwrap(),
                _ => hangs |= line == "hang",
            }
        }
        let (event_tx, events) = mpsc::channel(said.len() + 1);
        let end = (!hangs).then_some(ExecEvent::Exit { code });
        for event in said.into_iter().chain(end) {
            event_tx.try_send(event).unwrap();
        }
        if hangs {
            self.hung.lock().unwrap().push(event_tx);
        }
        ExecSession { events, control: mpsc::channel(1).0 }
    }

    pub(super) async fn run_played_cell(&self, ask: CellParams) -> Result<CellStream, Fault> {
        self.check_session(&ask.session)?;
        let player = self.players.cells.lock().unwrap().clone();
        let player = player.ok_or_else(|| Fault::bug("no test plays cells"))?;
        let (event_tx, events) = mpsc::channel(WINDOW);
        give(&player, PlayedCell { ask, events: event_tx }).await?;
        Ok(Box::pin(drain(events)))
    }

    pub(super) async fn open_connection(&self, id: SandboxId, port: GuestPort) -> Result<GuestStream, Fault> {
        let player = self.players.connections.lock().unwrap().clone();
        let player = player.ok_or_else(|| Fault::bug("no test accepts connections"))?;
        let (ours, theirs) = tokio::io::duplex(STREAM_BYTES);
        give(&player, PlayedConnection { id, port, stream: theirs }).await?;
        Ok(Box::new(ours))
    }

    pub(super) fn open_session(&self, id: &CodeSessionId, language: CodeLanguage) -> CodeSessionView {
        let view = CodeSessionView { id: id.clone(), language, created_ms: 1_700_000_000_000, cells: 0 };
        let mut sessions = self.sessions.lock().unwrap();
        if !sessions.iter().any(|other| other.id == view.id) {
            sessions.push(view.clone());
        }
        view
    }

    pub(super) fn check_session(&self, id: &CodeSessionId) -> Result<(), Fault> {
        let known = self.sessions.lock().unwrap().iter().any(|session| session.id == *id);
        if known { Ok(()) } else { Err(Fault::new(FaultKind::Missing, "session.not_found", "session not found")) }
    }

    pub(super) fn read_console(&self, ask: ConsoleRange) -> Result<ByteStream, Fault> {
        let (past, new_output) = self.players.console.lock().unwrap().take().ok_or_else(Fault::no_sandbox)?;
        let past = stream::iter([Ok(Bytes::from(past))]);
        Ok(match ask {
            ConsoleRange::Past => Box::pin(past),
            ConsoleRange::Follow => Box::pin(past.chain(drain(new_output).map(|piece| Ok(Bytes::from(piece))))),
        })
    }
}

fn open_queue<T>(player: &Mutex<Option<Sender<T>>>, capacity: usize) -> Receiver<T> {
    let (sender, receiver) = mpsc::channel(capacity);
    *player.lock().unwrap() = Some(sender);
    receiver
}

async fn give<T>(player: &Sender<T>, played: T) -> Result<(), Fault> {
    player.send(played).await.map_err(|_| Fault::bug("the test has stopped playing"))
}

fn drain<T>(receiver: Receiver<T>) -> impl stream::Stream<Item = T> {
    stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) })
}
