//! Connects this terminal with one in a sandbox: keys, output and sizes.

use std::{
    io::{self, IsTerminal, Read, Write},
    process::ExitCode,
};

use anyhow::Context;
use pandastack_client::{ClientError, TerminalEvent, TerminalInput, TerminalOutput, TerminalSize};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

use crate::{follow::exit_code, interrupt::StopSignals, raw::RawTerminal};

/// The byte that a terminal reads as end of input.
const END_OF_INPUT: &[u8] = &[4];
/// Most bytes of input in one read.
const KEYS_BYTES: usize = 16 * 1024;
/// Pieces of input that may wait to be sent.
const KEYS_QUEUE: usize = 4;

/// This terminal, before it is connected.
pub struct LocalTerminal {
    resized: Signal,
}

impl LocalTerminal {
    /// Listens for new sizes. Call it before the first size is read, so that none is missed.
    pub fn listen() -> anyhow::Result<Self> {
        Ok(Self { resized: signal(SignalKind::window_change()).context("listen for signals")? })
    }

    /// Passes keys and output on until the program in the sandbox ends. Returns its exit code.
    pub async fn connect(self, keyboard: TerminalInput, screen: TerminalOutput) -> anyhow::Result<ExitCode> {
        let mut asked_to_stop = StopSignals::listen()?;
        // Raw mode lasts until this function returns.
        let _raw = RawTerminal::enter().context("set up the terminal")?;
        let ended = tokio::select! {
            ended = show(screen) => ended,
            broken = type_in(keyboard, self.resized) => broken.map(|never| match never {}),
            () = asked_to_stop.recv() => Ok(crate::interrupt::INTERRUPTED.into()),
        };
        Ok(exit_code(ended?))
    }
}

/// Shows output until the program ends, and returns its exit code.
async fn show(mut screen: TerminalOutput) -> anyhow::Result<i32> {
    loop {
        match screen.next().await {
            Ok(TerminalEvent::Bytes(bytes)) => {
                let mut out = io::stdout().lock();
                out.write_all(&bytes)?;
                out.flush()?;
            }
            Ok(TerminalEvent::Exit(code)) => return Ok(code),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends keys and terminal sizes while the connection is open.
async fn type_in(mut keyboard: TerminalInput, mut resized: Signal) -> anyhow::Result<std::convert::Infallible> {
    let mut keys = keys()?;
    let mut keys_open = true;
    loop {
        let sent = tokio::select! {
            typed = keys.recv(), if keys_open => {
                keys_open = typed.is_some();
                keyboard.send(typed.unwrap_or_else(|| END_OF_INPUT.to_vec()).into()).await
            }
            _ = resized.recv() => keyboard.resize(RawTerminal::size()).await,
        };
        match sent {
            Ok(()) => {}
            // The reading side reports the reason: the program may just have ended.
            Err(ClientError::Socket { .. }) => std::future::pending().await,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads our standard input to its end, in a separate thread, because a terminal read cannot be
/// cancelled. The thread ends with the program.
pub fn keys() -> anyhow::Result<mpsc::Receiver<Vec<u8>>> {
    let (tx, rx) = mpsc::channel(KEYS_QUEUE);
    let read = move || {
        let mut buffer = vec![0; KEYS_BYTES];
        while let Ok(count @ 1..) = io::stdin().read(&mut buffer)
            && tx.blocking_send(buffer[..count].to_vec()).is_ok()
        {}
    };
    std::thread::Builder::new().name("keys".to_owned()).spawn(read).context("read from the terminal")?;
    Ok(rx)
}

impl RawTerminal {
    /// The size of our own terminal, or a common size if there is none.
    pub fn size() -> TerminalSize {
        let size = io::stdout().is_terminal().then(|| rustix::termios::tcgetwinsize(io::stdout()).ok()).flatten();
        match size {
            Some(size) if size.ws_row > 0 && size.ws_col > 0 => TerminalSize { rows: size.ws_row, cols: size.ws_col },
            _ => TerminalSize { rows: 24, cols: 80 },
        }
    }
}
