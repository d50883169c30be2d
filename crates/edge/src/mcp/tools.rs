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
                    "command": {"type": "string", "description": "Command line for `sh -c`"},
                    "timeout_ms": {"type": "integer", "minimum": 0, "description": "Milliseconds; 30000 by default"},
                },
                "required": ["command"],
            },
        },
        {
            "name": "run_code",
            "description": "Runs code in a session that keeps variables and imports between calls. Returns the \
                            output, the value of the last expression, and figures as images.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "code": {"type": "string"},
                    "language": {"type": "string", "enum": ["python", "javascript", "bash"], "default": "python"},
                    "session_id": {
                        "type": "string",
                        "description": "A session that was opened through the API; by default a shared session",
                    },
                    "timeout_ms": {"type": "integer", "minimum": 0, "description": "Milliseconds; 30000 by default"},
                },
                "required": ["code"],
            },
        },
        {
            "name": "read_file",
            "description": "Reads a text file in the sandbox, up to 1 MiB.",
            "inputSchema": {
                "type": "object",
                "properties": {"path": {"type": "string", "description": "Absolute path"}},
                "required": ["path"],
            },
        },
        {
            "name": "write_file",
            "description": "Writes a text file in the sandbox, and creates missing directories. The write is atomic.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Absolute path"},
                    "content": {"type": "string"},
                },
                "required": ["path", "content"],
            },
        },
        {
            "name": "list_dir",
            "description": "Lists a directory in the sandbox: type, size and name of each entry.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Absolute path; by default /workspace if it exists, \
                                                               otherwise the home directory"},
                },
            },
        },
    ])
}
