//! Running code: sessions that keep their state, cells in a session, and code without a session.

use std::{collections::BTreeMap, time::Duration};

use pandastack_model::{CodeLanguage, Fault, FaultKind};
use serde::{Deserialize, Serialize};

use crate::{
    failure::{bad, short},
    limits::{CELL_TIMEOUT_DEFAULT, CODE_BYTES_MAX, EXEC_TIMEOUT_MAX, ONCE_CODE_BYTES_MAX},
};

/// The supported languages, by the names that the API shows.
pub const CODE_LANGUAGES: &[&str] = &["python", "javascript", "bash", "sh", "ruby"];

/// Opens a code session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OpenSession {
    /// The language; `python` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
}

/// A code session. It keeps its state between cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CodeSession {
    pub id: String,
    /// The same as `id`, under the name that the documentation uses.
    #[serde(default)]
    pub session_id: String,
    pub sandbox_id: String,
    pub language: String,
    pub created_at: String,
    /// Number of cells that were started.
    #[serde(default)]
    pub cells: u64,
}

/// Runs code in a session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RunCell {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The cell is interrupted after this many milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<f64>,
}

/// One value in several formats, by MIME type. Images are in base64, JSON is text.
pub type MimeBundle = BTreeMap<String, String>;

/// The result of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CellResult {
    pub stdout: String,
    pub stderr: String,
    pub exit: i32,
    /// The same as `exit`, under the name that commands use.
    pub exit_code: i32,
    /// The traceback, if the code raised an exception.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub results: Vec<MimeBundle>,
    pub duration_ms: u64,
    /// Whether the session's kernel was restarted. The state of earlier cells is then lost.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub restarted: bool,
    /// Whether output beyond the limit was dropped. The text then ends with a line that says so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Runs code without a session, in a new process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RunOnce {
    /// The language; `python` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<f64>,
}

/// The result of code that ran without a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RanOnce {
    pub language: String,
    pub stdout: String,
    pub stderr: String,
    pub exit_code: i32,
    #[serde(default)]
    pub duration_ms: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// A checked cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellSpec {
    pub code: String,
    pub timeout: Duration,
}

/// Checked code to run without a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOnceSpec {
    pub interpreter: Interpreter,
    pub code: String,
    pub timeout: Duration,
}

/// The program that runs code without a session, and the flag that takes the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interpreter {
    pub language: &'static str,
    pub program: &'static str,
    pub flag: &'static str,
}

impl OpenSession {
    /// Finds the language.
    pub fn checked(&self) -> Result<CodeLanguage, Fault> {
        let name = self.language.as_deref().filter(|name| !name.is_empty()).unwrap_or("python");
        CodeLanguage::find(name).ok_or_else(|| unsupported(name, "python, javascript or bash"))
    }
}

impl TryFrom<RunCell> for CellSpec {
    type Error = Fault;

    fn try_from(ask: RunCell) -> Result<Self, Fault> {
        let RunCell { code, timeout_ms } = ask;
        Ok(Self { code: checked_code(code, CODE_BYTES_MAX)?, timeout: cell_timeout(timeout_ms)? })
    }
}

impl TryFrom<RunOnce> for RunOnceSpec {
    type Error = Fault;

    fn try_from(ask: RunOnce) -> Result<Self, Fault> {
        let RunOnce { language, code, timeout_ms } = ask;
        let name = language.as_deref().filter(|name| !name.is_empty()).unwrap_or("python");
        let interpreter = interpreter(name).ok_or_else(|| unsupported(name, "python, javascript, bash, sh or ruby"))?;
        let code = checked_code(code, ONCE_CODE_BYTES_MAX)?;
        if code.contains('\0') {
            return Err(bad("code.bad_request", "the code contains a NUL byte"));
        }
        Ok(Self { interpreter, code, timeout: cell_timeout(timeout_ms)? })
    }
}

fn interpreter(name: &str) -> Option<Interpreter> {
    let of = |language, program, flag| Some(Interpreter { language, program, flag });
    match name.to_ascii_lowercase().as_str() {
        "python" | "python3" | "py" => of("python", "python3", "-c"),
        "node" | "nodejs" | "javascript" | "js" => of("javascript", "node", "-e"),
        "bash" => of("bash", "bash", "-c"),
        "sh" | "shell" => of("sh", "sh", "-c"),
        "ruby" | "rb" => of("ruby", "ruby", "-e"),
        _ => None,
    }
}

fn unsupported(name: &str, known: &str) -> Fault {
    bad("language.unsupported", format!("unsupported language {:?}: use {known}", short(name)))
}

fn checked_code(code: Option<String>, bytes_max: usize) -> Result<String, Fault> {
    let code = code.filter(|code| !code.is_empty()).ok_or_else(|| bad("code.bad_request", "code required"))?;
    if code.len() > bytes_max {
        let text = format!("the code is longer than {bytes_max} bytes; write it to a file and run the file");
        return Err(Fault::new(FaultKind::TooLarge, "code.too_large", text));
    }
    Ok(code)
}

/// Turns milliseconds into a time limit. There always is one, because cells of a session run one
/// after the other.
pub fn cell_timeout(milliseconds: Option<f64>) -> Result<Duration, Fault> {
    match milliseconds {
        None | Some(0.0) => Ok(CELL_TIMEOUT_DEFAULT),
        Some(ms) if ms.is_nan() || ms < 0.0 => Err(bad("code.bad_request", "timeout_ms must be 0 or more")),
        // A time that does not fit a Duration is beyond the maximum.
        Some(ms) => Ok(Duration::try_from_secs_f64(ms / 1000.0).unwrap_or(EXEC_TIMEOUT_MAX).min(EXEC_TIMEOUT_MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_checked_once() {
        let cell = |json: &str| CellSpec::try_from(serde_json::from_str::<RunCell>(json).unwrap());
        let text = |json: &str| cell(json).unwrap_err().text;
        assert_eq!(cell(r#"{"code":"1"}"#), Ok(CellSpec { code: "1".into(), timeout: CELL_TIMEOUT_DEFAULT }));
        assert_eq!(cell(r#"{"code":"1","timeout_ms":0}"#).unwrap().timeout, CELL_TIMEOUT_DEFAULT);
        assert_eq!(cell(r#"{"code":"1","timeout_ms":1500}"#).unwrap().timeout, Duration::from_millis(1500));
        assert_eq!(cell(r#"{"code":"1","timeout_ms":1e300}"#).unwrap().timeout, EXEC_TIMEOUT_MAX);
        assert_eq!(text("{}"), "code required");
        assert_eq!(text(r#"{"code":""}"#), "code required");
        assert_eq!(text(r#"{"code":"1","timeout_ms":-1}"#), "timeout_ms must be 0 or more");
        let long = RunCell { code: Some("x".repeat(CODE_BYTES_MAX + 1)), timeout_ms: None };
        assert_eq!(CellSpec::try_from(long).unwrap_err().kind, FaultKind::TooLarge);
    }

    #[test]
    fn languages_are_found_by_their_names() {
        let open = |name: &str| OpenSession { language: Some(name.into()) }.checked();
        assert_eq!(OpenSession::default().checked(), Ok(CodeLanguage::Python));
        assert_eq!(open("js"), Ok(CodeLanguage::JavaScript));
        assert_eq!(open("ruby").unwrap_err().code, "language.unsupported");
        for name in ["python", "py", "node", "js", "bash", "sh", "ruby"].iter().chain(CODE_LANGUAGES) {
            assert!(interpreter(name).is_some(), "{name}");
        }
        assert!(interpreter("cobol").is_none());
    }
}
