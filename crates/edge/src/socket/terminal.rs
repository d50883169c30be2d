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
    line::{Goodbye, Heard, Hearing, Line, Tell},
    opening::Opening,
};
use crate::{
    Edge,
    exec::lost,
    limits::{STDIN_PIECE_BYTES, TERMINAL_COLS, TERMINAL_ROWS},
};

/// Starts the user's shell as a login shell: `$SHELL` if it is set, else bash, else sh.
const LOGIN_SHELL: &str = r#"for shell in "$SHELL" /bin/bash /bin/sh; do [ -x "$shell" ] && SHELL=$shell && export SHELL && exec "$shell" -l; done"#;

/// Format of the exit frame.
#[derive(Clone, Copy)]
enum Spelling {
    /// With all fields that terminal clients know.
    Typed,
    /// The form that the command line's `ssh` reads.
    Plain,
}

/// Opens a terminal with a login shell, or with the program that the query names.
pub async fn pty(State(edge): State<Edge>, opening: Opening, uri: Uri) -> Answer {
    let program = query_value(&uri, "cmd").filter(|cmd| !cmd.is_empty());
    if program.as_ref().is_some_and(|cmd| cmd.contains('\0') || cmd.len() > COMMAND_BYTES_MAX) {
        return Err(Fault::new(FaultKind::Caller, "exec.bad_request", "cmd contains a NUL byte or is too long").into());
    }
    open(edge, opening, &uri, (program, Spelling::Typed)).await
}

/// Opens a terminal with a login shell.
pub async fn ssh(State(edge): State<Edge>, opening: Opening, uri: Uri) -> Answer {
    open(edge, opening, &uri, (None, Spelling::Plain)).await
}

async fn open(edge: Edge, opening: Opening, uri: &Uri, (program, spelling): (Option<String>, Spelling)) -> Answer {
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
async fn serve(mut line: Line, session: ExecSession, spelling: Spelling, request: String) {
    let ExecSession { events, control } = session;
    // Input and output are independent: each flows while the other is blocked.
    let end = tokio::select! {
        end = output(events, &line.tell) => end,
        end = input(&mut line.hearing, control) => end,
        // Both may be blocked if neither the client nor the program reads.
        () = line.tell.closed() => End::Unheard,
        () = line.closing.cancelled() => End::Closing,
    };
    let (news, goodbye) = match end {
        End::Exit(exit) => match spelling {
            Spelling::Typed => (Some(TerminalServerFrame::typed_exit(exit)), Goodbye::Done),
            Spelling::Plain => (Some(TerminalServerFrame::Exit { exit }), Goodbye::Done),
        },
        End::Failed(fault) => {
            log_fault(&fault, &request);
            (Some(TerminalServerFrame::Error { error: reply(&fault, &request).body.error }), Goodbye::Done)
        }
        End::Refused(goodbye, error) => (Some(TerminalServerFrame::Error { error }), goodbye),
        End::Closing => (Some(TerminalServerFrame::Error { error: line.why_closing().to_owned() }), Goodbye::Closing),
        End::Unheard => (None, Goodbye::Done),
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
enum End {
    Exit(i32),
    Failed(Fault),
    Refused(Goodbye, String),
    /// The server stops, or the key was revoked.
    Closing,
    /// The client is gone.
    Unheard,
}

/// Takes output only as fast as the socket has room for it.
async fn output(mut events: mpsc::Receiver<ExecEvent>, tell: &Tell) -> End {
    loop {
        match events.recv().await {
            Some(ExecEvent::Stdout(bytes) | ExecEvent::Stderr(bytes)) => {
                if tell.send(Message::Binary(bytes)).await.is_err() {
                    return End::Unheard;
                }
            }
            Some(ExecEvent::Exit { code }) => return End::Exit(code),
            Some(ExecEvent::Failed(fault)) => return End::Failed(fault),
            // No timeout was set, so this event is unexpected. It is still an end.
            Some(ExecEvent::TimedOut { .. }) | None => return End::Failed(lost()),
        }
    }
}

/// Passes the client's frames on until the client disconnects.
async fn input(hearing: &mut Hearing, control: mpsc::Sender<ExecControl>) -> End {
    loop {
        match hearing.next().await {
            Heard::Binary(bytes) => feed(&control, bytes).await,
            Heard::Text(text) => match TerminalClientFrame::parse(&text) {
                Ok(TerminalClientFrame::Resize { rows, cols }) => {
                    let _ = control.send(ExecControl::Resize { rows, cols }).await;
                }
                Ok(TerminalClientFrame::Stdin(text)) => feed(&control, Bytes::from(text)).await,
                Ok(TerminalClientFrame::Unknown) => {}
                Err(error) => return End::Refused(Goodbye::Nonsense, error),
            },
            Heard::Nonsense(how, error) => return End::Refused(how, error),
            Heard::Closing => return End::Closing,
            Heard::Hangup => return End::Unheard,
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
