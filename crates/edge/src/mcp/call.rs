//! Executes a tool call. An invalid call is a protocol error. A failure in the sandbox is a normal
//! answer with an error text, because the agent can act on it.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use pandastack_door::http::log_fault;
use pandastack_model::{CodeLanguage, CodeSessionId, Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{ExecParams, FileKind, Program, WriteParams};
use pandastack_wire_public::{
    CellResult, CellSpec, ExecCommand, ExecRequest, ExecSpec, RunCell, cell_timeout, checked_path,
};
use serde_json::{Map, Value, json};

use super::{
    ToolTarget,
    rpc::{INVALID_PARAMS, RpcError, short},
};
use crate::{
    Edge,
    exec::{CommandStart, collect},
    limits::{MCP_ENTRIES_MAX, MCP_FILE_BYTES_MAX, MCP_IMAGE_BYTES_MAX, MCP_TEXT_BYTES_MAX, MCP_TIMEOUT_DEFAULT},
    repl::{open_session, run_cell},
};

/// Default directories of a listing: the first one that exists is used.
const DEFAULT_DIRECTORIES: [&str; 2] = ["/workspace", "/root"];

/// Executes a call.
pub async fn call(edge: &Edge, to: ToolTarget, params: Value) -> Result<Value, RpcError> {
    let id = to.id;
    let (name, arguments) = named(params)?;
    let outcome = match name.as_str() {
        "shell" => shell(edge, to, &arguments).await,
        "run_code" => run_code(edge, id, &arguments).await,
        "read_file" => read_file(edge, id, &arguments).await,
        "write_file" => write_file(edge, id, &arguments).await,
        "list_dir" => list_dir(edge, id, &arguments).await,
        other => return Err(RpcError::new(INVALID_PARAMS, format!("unknown tool {:?}", short(other)))),
    };
    match outcome {
        Ok(done) => Ok(done.render()),
        Err(ToolFailure::Call(text)) => Err(RpcError::new(INVALID_PARAMS, text)),
        Err(ToolFailure::Sandbox(fault)) => {
            log_fault(&fault, "mcp");
            Ok(ToolResult { content: vec![text(fault.text)], failed: true }.render())
        }
    }
}

/// The result of a tool.
struct ToolResult {
    content: Vec<Value>,
    failed: bool,
}

impl ToolResult {
    fn render(self) -> Value {
        json!({"content": self.content, "isError": self.failed})
    }
}

/// Why a tool has no result.
enum ToolFailure {
    /// The call is invalid.
    Call(String),
    Sandbox(Fault),
}

impl From<Fault> for ToolFailure {
    fn from(fault: Fault) -> Self {
        match fault.kind {
            FaultKind::Caller => Self::Call(fault.text),
            _ => Self::Sandbox(fault),
        }
    }
}

fn named(params: Value) -> Result<(String, Map<String, Value>), RpcError> {
    let bad = |text: &str| RpcError::new(INVALID_PARAMS, text);
    let Value::Object(mut params) = params else { return Err(bad("name required")) };
    let Some(Value::String(name)) = params.remove("name") else { return Err(bad("name required")) };
    match params.remove("arguments") {
        Some(Value::Object(arguments)) => Ok((name, arguments)),
        None | Some(Value::Null) => Ok((name, Map::new())),
        Some(_) => Err(bad("arguments must be an object")),
    }
}

/// Returns a text argument under the first of its names that is present.
fn text_of<'a>(arguments: &'a Map<String, Value>, spellings: &[&str]) -> Result<Option<&'a str>, ToolFailure> {
    let found = spellings.iter().find_map(|name| arguments.get(*name).filter(|value| !value.is_null()));
    match found {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(ToolFailure::Call(format!("{} must be a string", spellings[0]))),
    }
}

fn required<'a>(arguments: &'a Map<String, Value>, spellings: &[&str]) -> Result<&'a str, ToolFailure> {
    text_of(arguments, spellings)?.ok_or_else(|| ToolFailure::Call(format!("{} required", spellings[0])))
}

/// Returns the time limit: `timeout_ms`, or `timeout_seconds` as in the documentation.
fn limit(arguments: &Map<String, Value>) -> Result<Duration, ToolFailure> {
    let number = |name: &str| match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or_else(|| ToolFailure::Call(format!("{name} must be a number"))),
    };
    let milliseconds = match number("timeout_ms")? {
        Some(milliseconds) => Some(milliseconds),
        None => number("timeout_seconds")?.map(|seconds| seconds * 1000.0),
    };
    match milliseconds {
        None | Some(0.0) => Ok(MCP_TIMEOUT_DEFAULT),
        some => Ok(cell_timeout(some)?),
    }
}

async fn shell(
    edge: &Edge,
    ToolTarget { id, traced }: ToolTarget,
    arguments: &Map<String, Value>,
) -> Result<ToolResult, ToolFailure> {
    let command = required(arguments, &["command", "cmd"])?;
    let limit = limit(arguments)?;
    // The same checks as for every command.
    let spec = ExecSpec::try_from(ExecRequest { cmd: Some(command.to_owned()), ..ExecRequest::default() })?;
    let program = match spec.command {
        ExecCommand::Shell(line) => Program::Shell(line),
        ExecCommand::Argv(argv) => Program::Argv(argv),
    };
    let (cwd, mut env, deadline) = (None, BTreeMap::new(), Some(limit));
    traced.tell(&mut env);
    let ask = ExecParams { program, cwd, env, user: None, stdin: false, deadline, terminal: None };
    let ran = collect(edge, id, CommandStart { ask, stdin: None }).await?;
    let mut said = shortened(ran.stdout);
    if !ran.stderr.is_empty() {
        said.push_str(&section("stderr", &shortened(ran.stderr)));
    }
    if ran.exit_code != 0 {
        said.push_str(&section("exit code", &ran.exit_code.to_string()));
    }
    Ok(ToolResult { content: vec![text(said)], failed: ran.exit_code != 0 })
}

async fn run_code(edge: &Edge, id: SandboxId, arguments: &Map<String, Value>) -> Result<ToolResult, ToolFailure> {
    let code = required(arguments, &["code"])?.to_owned();
    let name = text_of(arguments, &["language"])?.unwrap_or("python");
    let language = CodeLanguage::find(name).ok_or_else(|| {
        ToolFailure::Call(format!("unsupported language {:?}: use python, javascript or bash", short(name)))
    })?;
    let spec =
        CellSpec { timeout: limit(arguments)?, ..CellSpec::try_from(RunCell { code: Some(code), timeout_ms: None })? };
    let session = match text_of(arguments, &["session_id", "session", "context_id"])? {
        Some(named) => {
            let bad = |_| Fault::new(FaultKind::Missing, "session.not_found", "session not found");
            named.parse::<CodeSessionId>().map_err(bad)?
        }
        None => {
            let shared = CodeSessionId::shared(language);
            // The language's kernel may be missing in the sandbox. The agent gets that as an
            // answer, because the call itself is valid.
            open_session(edge, id, shared, language).await.map_err(ToolFailure::Sandbox)?.id
        }
    };
    Ok(ran_cell(run_cell(edge, id, session, spec).await?))
}

fn ran_cell(ran: CellResult) -> ToolResult {
    let mut said = shortened(ran.stdout);
    if !ran.stderr.is_empty() {
        said.push_str(&section("stderr", &shortened(ran.stderr)));
    }
    let mut images = Vec::new();
    for bundle in &ran.results {
        let picture = ["image/png", "image/jpeg"].iter().find_map(|mime| Some((*mime, bundle.get(*mime)?)));
        match picture {
            Some((mime, data)) if images_bytes(&images) + data.len() <= MCP_IMAGE_BYTES_MAX => {
                images.push(json!({"type": "image", "data": data, "mimeType": mime}));
            }
            _ => {
                let form = ["text/plain", "text/markdown", "application/json", "text/html"];
                let plain = form.iter().find_map(|mime| bundle.get(*mime));
                said.push_str(&section("result", &shortened(plain.cloned().unwrap_or_default())));
            }
        }
    }
    if let Some(error) = &ran.error {
        said.push_str(&section("error", error));
    } else if ran.exit != 0 {
        said.push_str(&section("exit code", &ran.exit.to_string()));
    }
    let mut content = vec![text(said)];
    content.append(&mut images);
    ToolResult { content, failed: ran.error.is_some() || ran.exit != 0 }
}

fn images_bytes(images: &[Value]) -> usize {
    images.iter().filter_map(|image| image["data"].as_str()).map(str::len).sum()
}

async fn read_file(edge: &Edge, id: SandboxId, arguments: &Map<String, Value>) -> Result<ToolResult, ToolFailure> {
    let path = checked_path(Some(required(arguments, &["path"])?.to_owned()))?;
    let mut body = edge.host.read_file(id, &path).await.map_err(ToolFailure::Sandbox)?.body;
    let mut bytes = Vec::new();
    let mut cut = false;
    while let Some(piece) = body.next().await {
        let piece = piece?;
        let room = (MCP_FILE_BYTES_MAX - bytes.len()).min(piece.len());
        bytes.extend_from_slice(&piece[..room]);
        if room < piece.len() {
            cut = true;
            break;
        }
    }
    let mut contents = String::from_utf8_lossy(&bytes).into_owned();
    if cut {
        contents.push_str(&format!("\n[file truncated after {MCP_FILE_BYTES_MAX} bytes]\n"));
    }
    Ok(ToolResult { content: vec![text(contents)], failed: false })
}

async fn write_file(edge: &Edge, id: SandboxId, arguments: &Map<String, Value>) -> Result<ToolResult, ToolFailure> {
    let path = checked_path(Some(required(arguments, &["path"])?.to_owned()))?;
    let content = required(arguments, &["content", "contents", "data", "text"])?.to_owned();
    let body = stream::iter([Ok(Bytes::from(content))]);
    let ask = WriteParams { path: path.clone(), mode: None };
    let bytes = edge.host.write_file(id, ask, Box::pin(body)).await.map_err(ToolFailure::Sandbox)?;
    Ok(ToolResult { content: vec![text(format!("wrote {bytes} bytes to {path}"))], failed: false })
}

async fn list_dir(edge: &Edge, id: SandboxId, arguments: &Map<String, Value>) -> Result<ToolResult, ToolFailure> {
    let entries = match text_of(arguments, &["path"])?.filter(|path| !path.is_empty()) {
        Some(path) => edge.host.list_dir(id, &checked_path(Some(path.to_owned()))?).await,
        None => match edge.host.list_dir(id, DEFAULT_DIRECTORIES[0]).await {
            Err(fault) if fault.kind == FaultKind::Missing => edge.host.list_dir(id, DEFAULT_DIRECTORIES[1]).await,
            listed => listed,
        },
    };
    let entries = entries.map_err(ToolFailure::Sandbox)?;
    let mut lines: Vec<String> = entries
        .iter()
        .take(MCP_ENTRIES_MAX)
        .map(|entry| {
            let letter = match entry.kind {
                FileKind::File => '-',
                FileKind::Directory => 'd',
                FileKind::Symlink => 'l',
                FileKind::Other => '?',
            };
            let target = entry.target.as_ref().map(|target| format!(" -> {target}")).unwrap_or_default();
            format!("{letter} {:>10} {}{target}", entry.size, entry.name)
        })
        .collect();
    if entries.len() > MCP_ENTRIES_MAX {
        lines.push(format!("[{} more entries]", entries.len() - MCP_ENTRIES_MAX));
    }
    Ok(ToolResult { content: vec![text(shortened(lines.join("\n")))], failed: false })
}

fn text(text: String) -> Value {
    json!({"type": "text", "text": text})
}

fn section(name: &str, content: &str) -> String {
    format!("\n[{name}]\n{content}")
}

/// Keeps the start and the end of a long text, because an agent needs both.
fn shortened(text: String) -> String {
    if text.len() <= MCP_TEXT_BYTES_MAX {
        return text;
    }
    let half = MCP_TEXT_BYTES_MAX / 2;
    let (head, tail) = (text.floor_char_boundary(half), text.ceil_char_boundary(text.len() - half));
    format!("{}\n[{} bytes omitted]\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_lose_their_middle() {
        let long = format!("start{}end", "é".repeat(MCP_TEXT_BYTES_MAX));
        let short = shortened(long);
        assert!(short.len() < MCP_TEXT_BYTES_MAX + 64 && short.starts_with("start") && short.ends_with("end"));
        assert_eq!(shortened("as it is".to_owned()), "as it is");
    }

    #[test]
    fn results_become_text_and_images() {
        let bundle = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let results = vec![
            bundle(&[("image/png", "aWNo"), ("text/plain", "<Figure>")]),
            bundle(&[("text/plain", "42"), ("text/html", "<b>")]),
        ];
        let done = ran_cell(CellResult { stdout: "hi\n".into(), results, ..CellResult::default() }).render();
        assert_eq!(done["content"][0]["text"], "hi\n\n[result]\n42");
        assert_eq!(done["content"][1], json!({"type": "image", "data": "aWNo", "mimeType": "image/png"}));
        assert_eq!(done["isError"], false);
        let raised =
            ran_cell(CellResult { error: Some("Traceback".into()), exit: 1, ..CellResult::default() }).render();
        assert_eq!((&raised["isError"], &raised["content"][0]["text"]), (&json!(true), &json!("\n[error]\nTraceback")));
    }
}
