//! The list of tools, as agents read it.

use serde_json::{Value, json};

/// Lists the tools.
pub fn list() -> Value {
    json!([
        {
            "name": "shell",
            "description": "Runs a shell command as root in the sandbox and returns its output and exit code.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "command": {"type": "string", "description": "What `sh -c` runs"},
                    "timeout_ms": {"type": "integer", "minimum": 0, "description": "Time limit; 30000 if not given"},
                },
                "required": ["command"],
            },
        },
        {
            "name": "run_code",
            "description": "Runs code in a session that keeps variables and imports from call to call. Returns output, the value \
                of a trailing expression, and figures as images.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "code": {"type": "string"},
                    "language": {"type": "string", "enum": ["python", "javascript", "bash"], "default": "python"},
                    "session_id": {
                        "type": "string",
                        "description": "A session that was opened through the API; a shared one if not given",
                    },
                    "timeout_ms": {"type": "integer", "minimum": 0, "description": "Time limit; 30000 if not given"},
                },
                "required": ["code"],
            },
        },
        {
            "name": "read_file",
            "description": "Reads a text file of the sandbox, up to 1 MiB.",
            "inputSchema": {
                "type": "object",
                "properties": {"path": {"type": "string", "description": "An absolute path"}},
                "required": ["path"],
            },
        },
        {
            "name": "write_file",
            "description": "Writes a text file in the sandbox, making missing directories. It appears whole or not at all.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "An absolute path"},
                    "content": {"type": "string"},
                },
                "required": ["path", "content"],
            },
        },
        {
            "name": "list_dir",
            "description": "Lists a directory of the sandbox: type, size and name of each entry.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "An absolute path; /workspace, or else the home, if not given"},
                },
            },
        },
    ])
}
