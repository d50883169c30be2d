//! Frames of the sockets: JSON objects in text frames, and raw bytes in binary frames for
//! terminals. On the exec socket every frame has the id that the client chose for its command.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{ExecRequest, limits::SOCKET_ID_BYTES_MAX};

/// A client's frame on the exec socket.
#[derive(Clone, Debug)]
pub enum ExecClientFrame {
    /// Runs a command.
    Start {
        id: String,
        ask: Box<ExecRequest>,
        /// Whether more input follows in separate frames.
        live_stdin: bool,
    },
    /// Ends a command.
    Cancel { id: String },
    /// Text for standard input, the close of standard input, or both.
    Stdin { id: String, text: String, close: bool },
    /// A signal for the process group, by number.
    Signal { id: String, signal: i32 },
}

/// All fields of all client frames.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ExecFields {
    id: Option<String>,
    cancel: Option<bool>,
    signal: Option<String>,
    stdin: Option<Stdin>,
    stdin_close: Option<bool>,
    cmd: Option<String>,
    argv: Option<Vec<String>>,
    timeout_seconds: Option<f64>,
    cwd: Option<String>,
    env: Option<BTreeMap<String, String>>,
    user: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Stdin {
    Live(bool),
    Text(String),
}

impl ExecClientFrame {
    /// Reads a text frame. The error describes why it is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let ExecFields { id, cancel, signal, stdin, stdin_close, cmd, argv, timeout_seconds, cwd, env, user } =
            object(text)?;
        let id = id.filter(|id| !id.is_empty()).ok_or_else(|| "id required".to_owned())?;
        if id.len() > SOCKET_ID_BYTES_MAX {
            return Err(format!("id is longer than {SOCKET_ID_BYTES_MAX} bytes"));
        }
        if cancel == Some(true) {
            return Ok(Self::Cancel { id });
        }
        let starts = cmd.is_some() || argv.is_some();
        match (starts, signal, stdin) {
            (false, Some(name), _) => match signal_number(&name) {
                Some(signal) => Ok(Self::Signal { id, signal }),
                None => Err(format!("unknown signal {:?}", crate::failure::short(&name))),
            },
            (false, None, Some(Stdin::Text(text))) => {
                Ok(Self::Stdin { id, text, close: stdin_close.unwrap_or_default() })
            }
            (false, None, _) if stdin_close == Some(true) => Ok(Self::Stdin { id, text: String::new(), close: true }),
            (_, _, stdin) => {
                let (live_stdin, stdin) = match stdin {
                    Some(Stdin::Live(live)) => (live, None),
                    Some(Stdin::Text(text)) => (false, Some(text)),
                    None => (false, None),
                };
                let ask = Box::new(ExecRequest { cmd, timeout_seconds, argv, cwd, env, user, stdin });
                Ok(Self::Start { id, ask, live_stdin })
            }
        }
    }
}

/// A server's frame on the exec socket. `Exit` and `Error` are the last frame of their id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ExecServerFrame {
    Output { id: String, stream: OutputStream, data: String },
    Exit { id: String, exit: i32 },
    Error { id: String, error: String },
}

/// The stream that output was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputStream {
    Stdout,
    Stderr,
}

/// A client's text frame on a terminal socket. Binary frames are raw input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TerminalClientFrame {
    Resize {
        rows: u16,
        cols: u16,
    },
    Stdin(String),
    /// A frame that this server does not know, for example of a newer client.
    Unknown,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TerminalFields {
    resize: Option<SizeFields>,
    stdin: Option<String>,
    r#type: Option<String>,
    rows: Option<f64>,
    cols: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SizeFields {
    rows: Option<f64>,
    cols: Option<f64>,
}

impl TerminalClientFrame {
    /// Reads a text frame in both spellings: `{"resize":{"rows":R,"cols":C}}` and
    /// `{"type":"resize","rows":R,"cols":C}`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let TerminalFields { resize, stdin, r#type, rows, cols } = object(text)?;
        let resize = resize.or((r#type.as_deref() == Some("resize")).then_some(SizeFields { rows, cols }));
        Ok(match (resize, stdin) {
            (Some(SizeFields { rows, cols }), _) => match (side(rows), side(cols)) {
                (Some(rows), Some(cols)) => Self::Resize { rows, cols },
                // A window that is being minimized briefly reports invalid sizes.
                _ => Self::Unknown,
            },
            (None, Some(text)) => Self::Stdin(text),
            (None, None) => Self::Unknown,
        })
    }
}

/// The server's last text frame on a terminal socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TerminalServerFrame {
    /// The exit, with all fields that terminal clients know:
    /// `{"type":"exit","code":N,"exit":N}`.
    TypedExit {
        r#type: String,
        code: i32,
        exit: i32,
    },
    Exit {
        exit: i32,
    },
    Error {
        error: String,
    },
}

impl TerminalServerFrame {
    /// Returns the exit with all fields.
    pub fn typed_exit(code: i32) -> Self {
        Self::TypedExit { r#type: "exit".to_owned(), code, exit: code }
    }
}

/// Writes a frame as text.
pub fn socket_text(news: &impl Serialize) -> String {
    // Our frames are flat structs of text and numbers, which always serialize.
    serde_json::to_string(news).unwrap_or_else(|_| r#"{"id":"","error":"internal error"}"#.to_owned())
}

/// Reads the number of rows or columns from a query. Invalid values are ignored.
pub fn terminal_side(text: Option<&str>) -> Option<u16> {
    text?.parse::<u16>().ok().filter(|side| *side > 0)
}

fn side(number: Option<f64>) -> Option<u16> {
    let number = number?;
    (1.0..=f64::from(u16::MAX)).contains(&number).then_some(number as u16)
}

fn object<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    // An array would fill the fields by position.
    if !text.trim_ascii_start().starts_with('{') {
        return Err("bad json: a frame must be an object".to_owned());
    }
    serde_json::from_str(text).map_err(|error| format!("bad json: {error}"))
}

/// Returns a signal's number on Linux.
pub(crate) fn signal_number(name: &str) -> Option<i32> {
    let name = name.to_ascii_uppercase();
    Some(match name.strip_prefix("SIG").unwrap_or(&name) {
        "HUP" => 1,
        "INT" => 2,
        "QUIT" => 3,
        "KILL" => 9,
        "USR1" => 10,
        "USR2" => 12,
        "PIPE" => 13,
        "ALRM" => 14,
        "TERM" => 15,
        "CONT" => 18,
        "STOP" => 19,
        "TSTP" => 20,
        "WINCH" => 28,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str, error: &str) {
        let said = ExecClientFrame::parse(text).unwrap_err();
        assert!(said.starts_with(error), "{text}: {said}");
    }

    #[test]
    fn every_client_frame_is_understood() {
        let start = |text: &str| match ExecClientFrame::parse(text).unwrap() {
            ExecClientFrame::Start { id, ask, live_stdin } => (id, *ask, live_stdin),
            other => panic!("{other:?}"),
        };
        let (id, ask, live) = start(r#" {"id":"a","cmd":"true","timeout_seconds":5,"later":1}"#);
        assert_eq!((id.as_str(), ask.cmd.as_deref(), ask.timeout_seconds, live), ("a", Some("true"), Some(5.0), false));
        let (_, ask, live) = start(
            r#"{"id":"a","argv":["x"],"cwd":"/","env":{"A":"1"},"user":"nobody","stdin":true,"cancel":false,"signal":null}"#,
        );
        assert_eq!((ask.cwd.as_deref(), ask.user.as_deref(), ask.stdin, live), (Some("/"), Some("nobody"), None, true));
        assert_eq!(start(r#"{"id":"a","cmd":"cat","stdin":"in"}"#).1.stdin.as_deref(), Some("in"));
        // A frame without a command is a start too. It is refused later with a clear error.
        assert!(start(r#"{"id":"a"}"#).1.cmd.is_none());
        let is = |text: &str, wanted: fn(&ExecClientFrame) -> bool| {
            assert!(wanted(&ExecClientFrame::parse(text).unwrap()), "{text}")
        };
        is(r#"{"id":"a","cancel":true,"cmd":"x"}"#, |frame| matches!(frame, ExecClientFrame::Cancel { .. }));
        is(r#"{"id":"a","signal":"sigterm"}"#, |frame| matches!(frame, ExecClientFrame::Signal { signal: 15, .. }));
        is(r#"{"id":"a","stdin":""}"#, |frame| matches!(frame, ExecClientFrame::Stdin { close: false, .. }));
        is(r#"{"id":"a","stdin_close":true}"#, |frame| matches!(frame, ExecClientFrame::Stdin { close: true, .. }));
        is(r#"{"id":"a","stdin":"x","stdin_close":true}"#, |frame| {
            matches!(frame, ExecClientFrame::Stdin { close: true, .. })
        });
    }

    #[test]
    fn bad_client_frames_are_told_apart() {
        for text in
            ["", "{", "[]", "null", "7", r#""x""#, r#"{"id":7}"#, r#"{"id":"a","cmd":["x"]}"#, "{\"id\":\"a\"}}"]
        {
            refused(text, "bad json: ");
        }
        refused(r#"{"cmd":"x"}"#, "id required");
        refused(r#"{"id":"","cancel":true}"#, "id required");
        refused(r#"{"id":null}"#, "id required");
        refused(&format!(r#"{{"id":"{}"}}"#, "x".repeat(SOCKET_ID_BYTES_MAX + 1)), "id is longer than");
        refused(r#"{"id":"a","signal":"RTMIN"}"#, "unknown signal \"RTMIN\"");
    }

    #[test]
    fn the_exact_text_of_server_frames() {
        let check = |news: ExecServerFrame, text: &str| {
            assert_eq!(socket_text(&news), text);
            assert_eq!(serde_json::from_str::<ExecServerFrame>(text).unwrap(), news);
        };
        let (id, data) = ("a".to_owned(), "é\n".to_owned());
        check(
            ExecServerFrame::Output { id: id.clone(), stream: OutputStream::Stdout, data },
            r#"{"id":"a","stream":"stdout","data":"é\n"}"#,
        );
        check(ExecServerFrame::Exit { id: id.clone(), exit: 0 }, r#"{"id":"a","exit":0}"#);
        check(ExecServerFrame::Error { id, error: "cancelled".to_owned() }, r#"{"id":"a","error":"cancelled"}"#);
        assert_eq!(socket_text(&TerminalServerFrame::typed_exit(3)), r#"{"type":"exit","code":3,"exit":3}"#);
        assert_eq!(socket_text(&TerminalServerFrame::Exit { exit: 0 }), r#"{"exit":0}"#);
    }

    #[test]
    fn terminal_frames_have_two_spellings() {
        let size = Ok(TerminalClientFrame::Resize { rows: 30, cols: 100 });
        assert_eq!(TerminalClientFrame::parse(r#"{"resize":{"rows":30,"cols":100}}"#), size);
        assert_eq!(TerminalClientFrame::parse(r#"{"type":"resize","rows":30,"cols":100}"#), size);
        assert_eq!(TerminalClientFrame::parse(r#"{"stdin":"é"}"#), Ok(TerminalClientFrame::Stdin("é".to_owned())));
        for unknown in ["{}", r#"{"rows":1,"cols":1}"#, r#"{"resize":{"rows":0,"cols":-3}}"#, r#"{"type":"ping"}"#] {
            assert_eq!(TerminalClientFrame::parse(unknown), Ok(TerminalClientFrame::Unknown), "{unknown}");
        }
        for bad in ["", "ls\n", "[1]", r#"{"resize":"big"}"#] {
            assert!(TerminalClientFrame::parse(bad).unwrap_err().starts_with("bad json: "), "{bad}");
        }
    }

    #[test]
    fn nonsense_sizes_are_no_sizes() {
        assert_eq!(terminal_side(Some("40")), Some(40));
        for nonsense in [None, Some(""), Some("0"), Some("-1"), Some("undefined"), Some("70000")] {
            assert_eq!(terminal_side(nonsense), None);
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text: String) {
            let _ = (ExecClientFrame::parse(&text).is_ok(), TerminalClientFrame::parse(&text).is_ok());
            let braced = format!("{{{text}}}");
            let _ = (ExecClientFrame::parse(&braced).is_ok(), TerminalClientFrame::parse(&braced).is_ok());
        }
    }
}
