//! One program in a terminal on one socket: bytes in both directions, resizes, and the exit as the
//! last frame.

use std::collections::BTreeMap;

use axum::{
    extract::{State, ws::Message},
    http::Uri,
};
use bytes::Bytes;
use pandastack_door::http::{Answer, log_fault, query_value};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{ExecControl, ExecEvent, ExecParams, ExecSession, Program};
use pandastack_wire_public::{
    TerminalClientFrame, TerminalServerFrame, limits::COMMAND_BYTES_MAX, reply, socket_text, terminal_side,
};
use tokio::sync::mpsc;

use super::{
    open_socket::{CloseReason, MessageSender, OpenSocket, SocketInput, SocketReader},
    opening::SocketUpgrade,
};
use crate::{
    Edge,
    exec::lost,
    limits::{STDIN_PIECE_BYTES, TERMINAL_COLS, TERMINAL_ROWS},
};

/// Starts the user's shell as a login shell: `$SHELL` if it is set, else bash, else sh.
const LOGIN_SHELL: &str = concat!(
    r#"for shell in "$SHELL" /bin/bash /bin/sh; do "#,
    r#"[ -x "$shell" ] && SHELL=$shell && export SHELL && exec "$shell" -l; done"#,
);

/// Format of the exit frame.
#[derive(Clone, Copy)]
enum ExitFormat {
    /// With all fields that terminal clients know.
    Typed,
    /// The form that the command line's `ssh` reads.
    Plain,
}

/// Opens a terminal with a login shell, or with the program that the query names.
pub async fn pty(State(edge): State<Edge>, opening: SocketUpgrade, uri: Uri) -> Answer {
    let program = query_value(&uri, "cmd").filter(|cmd| !cmd.is_empty());
    if program.as_ref().is_some_and(|cmd| cmd.contains('\0') || cmd.len() > COMMAND_BYTES_MAX) {
        return Err(Fault::new(FaultKind::Caller, "exec.bad_request", "cmd contains a NUL byte or is too long").into());
    }
    open(edge, opening, &uri, (program, ExitFormat::Typed)).await
}

/// Opens a terminal with a login shell.
pub async fn ssh(State(edge): State<Edge>, opening: SocketUpgrade, uri: Uri) -> Answer {
    open(edge, opening, &uri, (None, ExitFormat::Plain)).await
}

async fn open(
    edge: Edge,
    opening: SocketUpgrade,
    uri: &Uri,
    (program, spelling): (Option<String>, ExitFormat),
) -> Answer {
    let side = |name, default| terminal_side(query_value(uri, name).as_deref()).unwrap_or(default);
    let mut env = BTreeMap::new();
    opening.traced.tell(&mut env);
    let ask = ExecParams {
        program: Program::Shell(program.unwrap_or_else(|| LOGIN_SHELL.to_owned())),
        cwd: None,
        env,
        user: None,
        stdin: true,
        deadline: None,
        terminal: Some((side("rows", TERMINAL_ROWS), side("cols", TERMINAL_COLS))),
    };
    // Started before the upgrade, so that an error has a status. If the client disconnects
    // meanwhile, the program is ended.
    let session = edge.host.exec(opening.id, ask).await?;
    let request = opening.request.clone();
    Ok(opening.accept(move |line| serve(line, session, spelling, request)))
}

/// Serves the terminal until the program, the client or the server ends it.
async fn serve(mut line: OpenSocket, session: ExecSession, spelling: ExitFormat, request: String) {
    let ExecSession { events, control } = session;
    // Input and output are independent: each flows while the other is blocked.
    let end = tokio::select! {
        end = output(events, &line.tell) => end,
        end = input(&mut line.hearing, control) => end,
        // Both may be blocked if neither the client nor the program reads.
        () = line.tell.closed() => TerminalEnd::Unheard,
        () = line.closing.cancelled() => TerminalEnd::Closing,
    };
    let (news, goodbye) = match end {
        TerminalEnd::Exit(exit) => match spelling {
            ExitFormat::Typed => (Some(TerminalServerFrame::typed_exit(exit)), CloseReason::Done),
            ExitFormat::Plain => (Some(TerminalServerFrame::Exit { exit }), CloseReason::Done),
        },
        TerminalEnd::Failed(fault) => {
            log_fault(&fault, &request);
            (Some(TerminalServerFrame::Error { error: reply(&fault, &request).body.error }), CloseReason::Done)
        }
        TerminalEnd::Refused(goodbye, error) => (Some(TerminalServerFrame::Error { error }), goodbye),
        TerminalEnd::Closing => {
            (Some(TerminalServerFrame::Error { error: line.why_closing().to_owned() }), CloseReason::Closing)
        }
        TerminalEnd::Unheard => (None, CloseReason::Done),
    };
    let told = async {
        if let Some(news) = news {
            let _ = line.tell.send(Message::text(socket_text(&news))).await;
        }
    };
    // A client that does not read may miss its last frame, but it must not delay us.
    let _ = tokio::time::timeout(crate::limits::SOCKET_CLOSE_GRACE, told).await;
    line.end(goodbye).await;
}

/// How a terminal ended.
enum TerminalEnd {
    Exit(i32),
    Failed(Fault),
    Refused(CloseReason, String),
    /// The server stops, or the key was revoked.
    Closing,
    /// The client is gone.
    Unheard,
}

/// Takes output only as fast as the socket has room for it.
async fn output(mut events: mpsc::Receiver<ExecEvent>, tell: &MessageSender) -> TerminalEnd {
    loop {
        match events.recv().await {
            Some(ExecEvent::Stdout(bytes) | ExecEvent::Stderr(bytes)) => {
                if tell.send(Message::Binary(bytes)).await.is_err() {
                    return TerminalEnd::Unheard;
                }
            }
            Some(ExecEvent::Exit { code }) => return TerminalEnd::Exit(code),
            Some(ExecEvent::Failed(fault)) => return TerminalEnd::Failed(fault),
            // No timeout was set, so this event is unexpected. It is still an end.
            Some(ExecEvent::TimedOut { .. }) | None => return TerminalEnd::Failed(lost()),
        }
    }
}

/// Passes the client's frames on until the client disconnects.
async fn input(hearing: &mut SocketReader, control: mpsc::Sender<ExecControl>) -> TerminalEnd {
    loop {
        match hearing.next().await {
            SocketInput::Binary(bytes) => feed(&control, bytes).await,
            SocketInput::Text(text) => match TerminalClientFrame::parse(&text) {
                Ok(TerminalClientFrame::Resize { rows, cols }) => {
                    let _ = control.send(ExecControl::Resize { rows, cols }).await;
                }
                Ok(TerminalClientFrame::Stdin(text)) => feed(&control, Bytes::from(text)).await,
                Ok(TerminalClientFrame::Unknown) => {}
                Err(error) => return TerminalEnd::Refused(CloseReason::Nonsense, error),
            },
            SocketInput::Nonsense(how, error) => return TerminalEnd::Refused(how, error),
            SocketInput::Closing => return TerminalEnd::Closing,
            SocketInput::Hangup => return TerminalEnd::Unheard,
        }
    }
}

/// Passes input on. A program that has ended takes none; its exit event follows.
async fn feed(control: &mpsc::Sender<ExecControl>, mut bytes: Bytes) {
    while !bytes.is_empty() {
        let piece = bytes.split_to(bytes.len().min(STDIN_PIECE_BYTES));
        if control.send(ExecControl::Stdin(piece)).await.is_err() {
            return;
        }
    }
}
