//! Routes that run something in a sandbox.

use serde_json::{Value, json};

use super::operation::{Operation, query, route, shape, yes_or_no};
use crate::{
    CellResult, CodeSession, ExecChunk, ExecExit, ExecFailure, ExecRequest, ExecResponse, Fed, FollowedChunk,
    FollowedExit, LostOutput, OpenSession, Process, ProcessOutput, RanOnce, RunCell, RunOnce, SignalRequest,
    SpawnRequest,
};

const COMMANDS: &str = "Commands";
const PROCESSES: &str = "Processes";
const CODE: &str = "Code";

pub fn operations() -> Vec<Operation> {
    let mut all = commands();
    all.extend(processes().into_iter().map(Operation::ours));
    all.extend(code());
    all
}

fn commands() -> Vec<Operation> {
    let example = || json!({"cmd": "uname -a", "timeout_seconds": 30});
    let side = |name| query(name, json!({"type": "integer", "minimum": 1, "maximum": 65535}), "Size of the terminal.");
    let terminal =
        |path, about| route(COMMANDS, "GET", path, about).machine().with(side("rows")).with(side("cols")).socket();
    let frames = "A WebSocket. Binary frames carry input and output. Text frames from the client are \
                  `{\"resize\":{\"rows\":R,\"cols\":C}}` or `{\"stdin\":\"…\"}`. The last text frame from the server \
                  is `{\"exit\":N}` or `{\"error\":\"…\"}`.";
    vec![
        route(COMMANDS, "POST", "/v1/sandboxes/{id}/exec", "Run a command and return its output")
            .machine()
            .takes::<ExecRequest>(example())
            .gives::<ExecResponse>(200),
        route(COMMANDS, "POST", "/v1/sandboxes/{id}/exec/stream", "Run a command and stream its output")
            .notes(
                "The stream ends with exactly one `exit` or `error` event. If the client disconnects, the command is \
                 ended.",
            )
            .machine()
            .takes::<ExecRequest>(example())
            .gives_events(&[
                ("stdout", shape::<ExecChunk>),
                ("stderr", shape::<ExecChunk>),
                ("exit", shape::<ExecExit>),
                ("error", shape::<ExecFailure>),
            ]),
        route(COMMANDS, "GET", "/v1/sandboxes/{id}/exec/ws", "WebSocket that runs many commands at once")
            .notes(
                "A WebSocket of JSON objects in text frames. The client sends `{\"id\",\"cmd\",…}` with the fields of \
                 `ExecRequest`, `{\"id\",\"cancel\":true}`, `{\"id\",\"stdin\"}`, `{\"id\",\"stdin_close\":true}` and \
                 `{\"id\",\"signal\"}`; the server sends `{\"id\",\"stream\",\"data\"}` and, as the last frame of \
                 each id, `{\"id\",\"exit\"}` or `{\"id\",\"error\"}`.",
            )
            .machine()
            .socket(),
        terminal("/v1/sandboxes/{id}/exec/pty", "WebSocket with a terminal").notes(frames).with(query(
            "cmd",
            json!({"type": "string"}),
            "Program to run instead of a login shell.",
        )),
        terminal("/v1/sandboxes/{id}/ssh", "WebSocket with a terminal, for the `ssh` command of the CLI").notes(frames),
    ]
}

fn processes() -> Vec<Operation> {
    let bytes = json!({"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}});
    let last = json!({"name": "Last-Event-ID", "in": "header", "schema": {"type": "integer", "minimum": 0},
        "description": "Overrides `offset` if `follow` is set."});
    vec![
        route(PROCESSES, "POST", "/v1/sandboxes/{id}/processes", "Start a process that outlives the request")
            .once()
            .machine()
            .takes::<SpawnRequest>(json!({"cmd": "python3 -m http.server 3000", "tag": "web"}))
            .gives::<Process>(201),
        route(PROCESSES, "GET", "/v1/sandboxes/{id}/processes", "List processes, oldest first")
            .machine()
            .gives::<Vec<Process>>(200),
        route(PROCESSES, "GET", "/v1/sandboxes/{id}/processes/{process}", "Show a process")
            .machine()
            .gives::<Process>(200),
        route(
            PROCESSES,
            "DELETE",
            "/v1/sandboxes/{id}/processes/{process}",
            "Kill a process and its group, and remove it from the list",
        )
        .machine()
        .gives_nothing(204),
        route(
            PROCESSES,
            "GET",
            "/v1/sandboxes/{id}/processes/{process}/output",
            "Output of a process from an offset on, or follow it",
        )
        .notes(
            "With `follow` the response is an event stream that ends with exactly one `exit` or `error` event. \
                 Event ids are offsets.",
        )
        .machine()
        .with(query("offset", json!({"type": "integer", "minimum": 0}), "Offset of the first byte to return."))
        .with(yes_or_no("follow", "Keeps the stream open until the process ends."))
        .with(last)
        .gives::<ProcessOutput>(200)
        .gives_events(&[
            ("stdout", shape::<FollowedChunk>),
            ("stderr", shape::<FollowedChunk>),
            ("lost", shape::<LostOutput>),
            ("exit", shape::<FollowedExit>),
            ("error", shape::<ExecFailure>),
        ]),
        route(
            PROCESSES,
            "POST",
            "/v1/sandboxes/{id}/processes/{process}/stdin",
            "Write to the standard input of a process",
        )
        .machine()
        .with(yes_or_no("end", "Closes standard input after the write."))
        .takes_content(bytes, false)
        .gives::<Fed>(200),
        route(
            PROCESSES,
            "POST",
            "/v1/sandboxes/{id}/processes/{process}/signal",
            "Send a signal to a process and its group",
        )
        .machine()
        .takes::<SignalRequest>(json!({"signal": "TERM"}))
        .gives_nothing(204),
    ]
}

fn code() -> Vec<Operation> {
    let message = json!({"type": "object", "properties": {
        "jsonrpc": {"type": "string", "const": "2.0"}, "id": {"type": ["string", "integer"]},
        "method": {"type": "string"}, "params": {"type": "object"}}});
    let messages = json!({"oneOf": [message, {"type": "array", "items": {"type": "object"}}]});
    let example = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let answer: Value = json!({"type": ["object", "array"]});
    let languages = |path, about| route(CODE, "GET", path, about).gives::<Vec<String>>(200);
    let mut schema = message.clone();
    schema["required"] = json!(["jsonrpc", "method"]);
    let one = json!({"application/json": {"schema": schema, "example": example.clone()}});
    let tools = |path, about| {
        route(CODE, "POST", path, about)
            .notes(
                "JSON-RPC 2.0 without sessions, one message per request. A tool call whose client asked for progress \
                 is answered with an event stream.",
            )
            .takes_content(one.clone(), true)
            .gives_content(200, "application/json", json!({"type": "object"}))
            .gives_nothing(202)
            .gives_content(400, "application/json", json!({"type": "object"}))
    };
    vec![
        route(
            CODE,
            "POST",
            "/v1/sandboxes/{id}/repl/sessions",
            "Open a code session, which keeps its state between cells",
        )
        .once()
        .machine()
        .may_take::<OpenSession>(json!({"language": "python"}))
        .gives::<CodeSession>(201),
        route(CODE, "GET", "/v1/sandboxes/{id}/repl/sessions", "List code sessions, oldest first")
            .machine()
            .gives::<Vec<CodeSession>>(200),
        route(
            CODE,
            "POST",
            "/v1/sandboxes/{id}/repl/sessions/{session}/run",
            "Run a cell and return its output and results",
        )
        .machine()
        .takes::<RunCell>(json!({"code": "6 * 7"}))
        .gives::<CellResult>(200),
        route(CODE, "DELETE", "/v1/sandboxes/{id}/repl/sessions/{session}", "Close a code session")
            .machine()
            .gives_nothing(204),
        route(CODE, "POST", "/v1/sandboxes/{id}/repl", "Run code without a session")
            .machine()
            .takes::<RunOnce>(json!({"language": "python", "code": "print(6 * 7)"}))
            .gives::<RanOnce>(200),
        route(CODE, "POST", "/v1/sandboxes/{id}/mcp", "The sandbox as tools for agents (Model Context Protocol)")
            .notes("JSON-RPC 2.0 without sessions. A rejected message is answered with a JSON-RPC error.")
            .machine()
            .takes_content(json!({"application/json": {"schema": messages, "example": example}}), true)
            .gives_content(200, "application/json", answer.clone())
            .gives_nothing(204)
            .gives_content(400, "application/json", answer),
        tools("/v1/mcp", "The workspace as tools for agents (Model Context Protocol)"),
        tools("/mcp", "The workspace as tools for agents (same as `/v1/mcp`)"),
        languages("/v1/repl/languages", "List the languages of code sessions"),
        languages("/repl/languages", "List the languages of code sessions (same as `/v1/repl/languages`)"),
    ]
}
