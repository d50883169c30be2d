//! Processes that outlive the request that started them. An extension of the published API.

use std::collections::BTreeMap;

use pandastack_model::{Fault, FaultKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ExecRequest, ExecSpec, limits::TAG_BYTES_MAX, socket::signal_number};

/// Prefix of process ids.
const PREFIX: &str = "prc_";

/// Starts a process. `cmd` is a shell command line. `argv` is a program with its arguments, run
/// without a shell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SpawnRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cmd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// The process is ended after this many seconds of the sandbox's own clock. Missing or zero
    /// means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Whether to keep standard input open. Otherwise it is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<bool>,
    /// A name for the process, chosen by the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// A checked request for a process.
#[derive(Clone, Debug, PartialEq)]
pub struct SpawnSpec {
    /// Without standard input, whatever the request's `stdin` is.
    pub exec: ExecSpec,
    pub keeps_stdin: bool,
    pub tag: Option<String>,
}

impl TryFrom<SpawnRequest> for SpawnSpec {
    type Error = Fault;

    fn try_from(ask: SpawnRequest) -> Result<Self, Fault> {
        let SpawnRequest { cmd, argv, timeout_seconds, cwd, env, user, stdin, tag } = ask;
        let tag = tag.filter(|tag| !tag.is_empty());
        if tag.as_ref().is_some_and(|tag| tag.len() > TAG_BYTES_MAX || tag.chars().any(char::is_control)) {
            return Err(bad(format!("tag must be at most {TAG_BYTES_MAX} bytes without control characters")));
        }
        let exec = ExecRequest { cmd, timeout_seconds, argv, cwd, env, user, stdin: None };
        Ok(Self { exec: exec.try_into()?, keeps_stdin: stdin.unwrap_or(false), tag })
    }
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Process {
    pub id: String,
    pub pid: u32,
    /// The start of the command.
    pub cmd: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// `running`, `exited`, or `killed` if a signal or the timeout ended it.
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Whether `timeout_seconds` ended the process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    pub started_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Bytes written so far, including bytes that are no longer kept.
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    /// Offset of the oldest output byte that is still kept. Offsets count both streams together.
    pub kept_from: u64,
    /// Whether standard input can be written.
    #[serde(default)]
    pub stdin: bool,
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutputChunk {
    /// `stdout` or `stderr`.
    pub stream: String,
    pub chunk: String,
}

/// Current output of a process, from an offset on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessOutput {
    pub stdout: String,
    pub stderr: String,
    /// The same output, in the order in which it was written.
    pub chunks: Vec<OutputChunk>,
    /// The offset for the next request.
    pub next_offset: u64,
    /// Bytes after the requested offset that are no longer kept.
    pub truncated: u64,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// Data of a `stdout` or `stderr` event of a followed process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FollowedChunk {
    pub chunk: String,
    /// The offset after this chunk.
    pub offset: u64,
}

/// Data of a `lost` event: this many bytes before the offset are no longer kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LostOutput {
    pub bytes: u64,
    pub offset: u64,
}

/// Data of the `exit` event of a followed process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FollowedExit {
    pub exit_code: i32,
    pub status: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    pub offset: u64,
}

/// The result of a write to standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fed {
    pub bytes: u64,
}

/// Sends a signal, given by name or number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SignalRequest {
    #[serde(default)]
    pub signal: Value,
}

impl SignalRequest {
    /// Returns the signal's number.
    pub fn number(&self) -> Result<i32, Fault> {
        let number = match &self.signal {
            Value::Number(number) => number.as_i64().and_then(|number| i32::try_from(number).ok()),
            Value::String(name) => signal_number(name).or_else(|| name.parse().ok()),
            _ => None,
        };
        number.filter(|number| (1..64).contains(number)).ok_or_else(|| {
            Fault::new(
                FaultKind::Caller,
                "process.bad_signal",
                "signal must be a name such as TERM or a number from 1 to 63",
            )
        })
    }
}

/// Writes the id of a process.
pub fn process_id(number: u64) -> String {
    format!("{PREFIX}{number}")
}

/// Reads the id of a process. Text that is not an id is answered like an unknown process.
pub fn process_number(id: &str) -> Result<u64, Fault> {
    let digits = id.strip_prefix(PREFIX).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| Fault::new(FaultKind::Missing, "process.not_found", "no such process"))
}

fn bad(text: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Caller, "process.bad_request", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_back_and_others_name_nothing() {
        assert_eq!(process_number(&process_id(7)).unwrap(), 7);
        for bad in ["", "7", "prc_", "prc_-1", "prc_+1", "prc_1x", "prc_99999999999999999999", "sbx_1"] {
            assert_eq!(process_number(bad).unwrap_err().kind, FaultKind::Missing, "{bad}");
        }
    }

    fn check(json: &str, expected: Option<i32>) {
        let request: SignalRequest = serde_json::from_str(json).unwrap();
        assert_eq!(request.number().ok(), expected, "{json}");
    }

    #[test]
    fn signals_have_names_and_numbers() {
        check(r#"{"signal":"TERM"}"#, Some(15));
        check(r#"{"signal":"sigkill"}"#, Some(9));
        check(r#"{"signal":2}"#, Some(2));
        check(r#"{"signal":"10"}"#, Some(10));
        for bad in [
            r#"{}"#,
            r#"{"signal":0}"#,
            r#"{"signal":64}"#,
            r#"{"signal":1.5}"#,
            r#"{"signal":"NOPE"}"#,
            r#"{"signal":[9]}"#,
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn requests_are_checked() {
        let spec = |json: &str| SpawnSpec::try_from(serde_json::from_str::<SpawnRequest>(json).unwrap());
        let good = spec(r#"{"cmd":"true","stdin":true,"tag":"web"}"#).unwrap();
        assert_eq!((good.keeps_stdin, good.tag.as_deref(), good.exec.stdin), (true, Some("web"), None));
        assert_eq!(spec("{}").unwrap_err().code, "exec.bad_request");
        assert_eq!(spec(r#"{"cmd":"a","tag":"a\nb"}"#).unwrap_err().code, "process.bad_request");
        let long = format!(r#"{{"cmd":"a","tag":"{}"}}"#, "x".repeat(TAG_BYTES_MAX + 1));
        assert_eq!(spec(&long).unwrap_err().code, "process.bad_request");
    }
}
