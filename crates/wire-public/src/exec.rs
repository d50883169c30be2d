//! Running a command: the request, the whole answer, and the events of a streamed answer.

use std::{collections::BTreeMap, time::Duration};

use pandastack_model::{Fault, FaultKind};
use serde::{Deserialize, Serialize};

use crate::{
    limits::{COMMAND_BYTES_MAX, EXEC_TIMEOUT_MAX, PATH_BYTES_MAX},
    sandbox::check_env,
};

/// Longest user name on Linux.
const USER_BYTES_MAX: usize = 32;

/// Runs a command. `cmd` is a shell command line. `argv` is a program with its arguments, run
/// without a shell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ExecRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cmd: Option<String>,
    /// The command is ended after this many seconds. Missing or zero means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Text for standard input, which is then closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecResponse {
    pub stdout: String,
    pub stderr: String,
    pub exit_code: i32,
    #[serde(default)]
    pub duration_ms: u64,
    /// Whether output beyond the limit was dropped. The text then ends with a line that says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Data of a `stdout` or `stderr` event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecChunk {
    pub chunk: String,
}

/// Data of the `exit` event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecExit {
    pub exit_code: i32,
}

/// Data of the `error` event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecFailure {
    pub error: String,
}

/// The program to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecCommand {
    Shell(String),
    Argv(Vec<String>),
}

/// A checked command. Every field can be passed to a guest.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecSpec {
    pub command: ExecCommand,
    pub cwd: Option<String>,
    pub env: BTreeMap<String, String>,
    pub user: Option<String>,
    pub stdin: Option<String>,
    pub timeout: Option<Duration>,
}

impl TryFrom<ExecRequest> for ExecSpec {
    type Error = Fault;

    fn try_from(ask: ExecRequest) -> Result<Self, Fault> {
        let ExecRequest { cmd, timeout_seconds, argv, cwd, env, user, stdin } = ask;
        let env = env.unwrap_or_default();
        check_env(&env)?;
        let cwd = cwd.filter(|cwd| !cwd.is_empty());
        if cwd.as_ref().is_some_and(|cwd| !cwd.starts_with('/') || cwd.contains('\0') || cwd.len() > PATH_BYTES_MAX) {
            return Err(bad("cwd must be an absolute path"));
        }
        let user = user.filter(|user| !user.is_empty());
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if user.as_ref().is_some_and(|user| user.len() > USER_BYTES_MAX || !user.chars().all(plain)) {
            return Err(bad("user must consist of letters, digits, '_', '-' and '.'"));
        }
        Ok(ExecSpec { command: command(cmd, argv)?, cwd, env, user, stdin, timeout: timeout(timeout_seconds)? })
    }
}

fn bad(text: &str) -> Fault {
    Fault::new(FaultKind::Caller, "exec.bad_request", text)
}

fn command(cmd: Option<String>, argv: Option<Vec<String>>) -> Result<ExecCommand, Fault> {
    let (bytes, command) = match (cmd.filter(|cmd| !cmd.is_empty()), argv.filter(|argv| !argv.is_empty())) {
        (Some(_), Some(_)) => return Err(bad("send cmd or argv, not both")),
        (Some(cmd), None) => (cmd.len(), ExecCommand::Shell(cmd)),
        (None, Some(argv)) => (argv.iter().map(|word| word.len() + 1).sum(), ExecCommand::Argv(argv)),
        (None, None) => return Err(bad("cmd required")),
    };
    let nul = match &command {
        ExecCommand::Shell(cmd) => cmd.contains('\0'),
        ExecCommand::Argv(argv) => argv[0].is_empty() || argv.iter().any(|word| word.contains('\0')),
    };
    if nul {
        return Err(bad("the command has an empty program name or contains a NUL byte"));
    }
    if bytes > COMMAND_BYTES_MAX {
        let text = format!("the command is longer than {COMMAND_BYTES_MAX} bytes; write it to a file and run the file");
        return Err(Fault::new(FaultKind::TooLarge, "exec.command_too_large", text));
    }
    Ok(command)
}

fn timeout(seconds: Option<f64>) -> Result<Option<Duration>, Fault> {
    let Some(seconds) = seconds else { return Ok(None) };
    if seconds == 0.0 {
        return Ok(None);
    }
    if seconds.is_nan() || seconds < 0.0 {
        return Err(bad("timeout_seconds must be 0 or more"));
    }
    // A time that does not fit a Duration is beyond the maximum.
    Ok(Some(Duration::try_from_secs_f64(seconds).unwrap_or(EXEC_TIMEOUT_MAX).min(EXEC_TIMEOUT_MAX)))
}

/// The error text of a command that timed out. The published clients search it for `timeout`.
pub fn exec_timeout(after: Duration) -> String {
    format!("exec timeout after {}s", after.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_text_is_what_clients_match() {
        assert_eq!(exec_timeout(Duration::from_secs(10)), "exec timeout after 10s");
        assert_eq!(exec_timeout(Duration::from_millis(500)), "exec timeout after 0.5s");
    }

    #[test]
    fn unknown_and_null_fields_are_fine() {
        let request: ExecRequest =
            serde_json::from_str(r#"{"cmd":"true","timeout_seconds":5,"shell":"zsh","env":null}"#).unwrap();
        assert_eq!(request.cmd.as_deref(), Some("true"));
        assert_eq!(request.timeout_seconds, Some(5.0));
    }

    fn check(json: &str, expected: Result<ExecSpec, &str>) {
        let request: ExecRequest = serde_json::from_str(json).unwrap();
        assert_eq!(ExecSpec::try_from(request).map_err(|fault| fault.text), expected.map_err(str::to_owned), "{json}");
    }

    #[test]
    fn requests_are_checked_once() {
        let plain = ExecSpec {
            command: ExecCommand::Shell("true".into()),
            cwd: None,
            env: BTreeMap::new(),
            user: None,
            stdin: None,
            timeout: None,
        };
        check(r#"{"cmd":"true"}"#, Ok(plain.clone()));
        check(r#"{"cmd":"true","timeout_seconds":0,"argv":[],"cwd":"","user":""}"#, Ok(plain.clone()));
        check(
            r#"{"cmd":"true","timeout_seconds":1e300}"#,
            Ok(ExecSpec { timeout: Some(EXEC_TIMEOUT_MAX), ..plain.clone() }),
        );
        check(
            r#"{"argv":["a","b c"]}"#,
            Ok(ExecSpec { command: ExecCommand::Argv(vec!["a".into(), "b c".into()]), ..plain }),
        );
        check("{}", Err("cmd required"));
        check(r#"{"cmd":""}"#, Err("cmd required"));
        check(r#"{"cmd":"a","argv":["a"]}"#, Err("send cmd or argv, not both"));
        check(r#"{"cmd":"a\u0000b"}"#, Err("the command has an empty program name or contains a NUL byte"));
        check(r#"{"cmd":"a","timeout_seconds":-1}"#, Err("timeout_seconds must be 0 or more"));
        check(r#"{"cmd":"a","cwd":"tmp"}"#, Err("cwd must be an absolute path"));
        check(r#"{"cmd":"a","user":"root; rm"}"#, Err("user must consist of letters, digits, '_', '-' and '.'"));
    }
}
