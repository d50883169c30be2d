//! The tools as models read them: names, descriptions and schemas of the arguments.

use serde_json::{Value, json};

use super::{ToolEffect, ToolSpec, Toolset};

/// Lists every tool.
pub fn all() -> Vec<ToolSpec> {
    [sandboxes(), commands(), files(), processes(), copies(), databases(), platform()].concat()
}

/// Starts a description.
fn tool(set: Toolset, name: &'static str, title: &'static str, effect: ToolEffect) -> ToolSpec {
    ToolSpec { name, title, description: "", set, effect, properties: json!({}), required: &[] }
}

impl ToolSpec {
    fn says(self, description: &'static str) -> Self {
        Self { description, ..self }
    }

    fn takes(self, properties: Value, required: &'static [&'static str]) -> Self {
        Self { properties, required, ..self }
    }
}

fn sandbox_id() -> Value {
    json!({"type": "string", "description": "Id of the sandbox, from create_sandbox or list_sandboxes"})
}

fn process_id() -> Value {
    json!({"type": "string", "description": "Id of the process, such as prc_1"})
}

fn environment() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}, "description": "Environment variables"})
}

fn labels() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}, "description": "Labels of your own"})
}

fn whole(description: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": description})
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn yes_or_no(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

fn sandboxes() -> Vec<ToolSpec> {
    let tool = |name, title, effect| tool(Toolset::Sandboxes, name, title, effect);
    vec![
        tool("create_sandbox", "Create a sandbox", ToolEffect::Adds)
            .says(
                "Creates a sandbox: a Linux machine of its own, ready in less than a second. Returns its id, which the \
                 other tools need. Delete it with delete_sandbox when the work is done.",
            )
            .takes(
                json!({
                    "template": text("Name of a template, from list_templates; code-interpreter by default"),
                    "ttl_seconds": whole("Idle seconds after which the sandbox is removed, or put to sleep if it is \
                                          persistent"),
                    "metadata": labels(),
                    "env": environment(),
                    "persistent": yes_or_no("Put it to sleep instead of removing it when it is idle"),
                    "from_snapshot": text("Id of a snapshot to start from, instead of a template"),
                    "egress_allowlist": {
                        "type": "array", "items": {"type": "string"},
                        "description": "Hosts that the sandbox may reach; everything by default, nothing if empty",
                    },
                }),
                &[],
            ),
        tool("list_sandboxes", "List sandboxes", ToolEffect::Reads)
            .says("Lists the sandboxes of this workspace with their ids, templates and states.")
            .takes(
                json!({
                    "limit": whole("Most sandboxes to return"),
                    "after": text("Id of the last sandbox of the previous page"),
                }),
                &[],
            ),
        tool("get_sandbox", "Show a sandbox", ToolEffect::Reads)
            .says("Shows one sandbox: state, template, size, metadata.")
            .takes(json!({"sandbox_id": sandbox_id()}), &["sandbox_id"]),
        tool("delete_sandbox", "Delete a sandbox", ToolEffect::Removes)
            .says("Deletes a sandbox with all its files and processes. This cannot be undone.")
            .takes(json!({"sandbox_id": sandbox_id()}), &["sandbox_id"]),
        tool("hibernate_sandbox", "Put a sandbox to sleep", ToolEffect::Sets)
            .says(
                "Puts a sandbox to sleep with its memory, files and processes. It then costs no CPU and memory. It \
                 wakes with wake_sandbox or with the next use, and its processes go on where they were.",
            )
            .takes(json!({"sandbox_id": sandbox_id()}), &["sandbox_id"]),
        tool("wake_sandbox", "Wake a sandbox", ToolEffect::Sets)
            .says("Wakes a sleeping sandbox. Other tools wake it too, so this is needed only to wake it early.")
            .takes(json!({"sandbox_id": sandbox_id()}), &["sandbox_id"]),
        tool("preview_url", "Get a URL for a port", ToolEffect::Adds)
            .says(
                "Returns a URL that opens a port of the sandbox in a browser, such as that of a web server that \
                 start_process started. Whoever has the URL can use it until it expires.",
            )
            .takes(
                json!({
                    "sandbox_id": sandbox_id(),
                    "port": {"type": "integer", "minimum": 1, "maximum": 65535,
                             "description": "Port that a program in the sandbox listens on"},
                    "ttl_seconds": whole("How long the URL works; one hour by default"),
                }),
                &["sandbox_id", "port"],
            ),
    ]
}

fn commands() -> Vec<ToolSpec> {
    let tool = |name, title| tool(Toolset::Commands, name, title, ToolEffect::Runs);
    let language =
        json!({"type": "string", "enum": ["python", "javascript", "bash"], "description": "python by default"});
    vec![
        tool("run_command", "Run a command")
            .says(
                "Runs a shell command as root in a sandbox and waits until it ends. Returns JSON with stdout, stderr \
                 and exit_code. Every call has a new shell: directory and variables do not last, files do. For servers \
                 and work longer than 300 seconds use start_process. If the output is too long, its middle is cut and \
                 a note names the file in the sandbox that has all of it.",
            )
            .takes(
                json!({
                    "sandbox_id": sandbox_id(),
                    "command": text("Command line for sh -c"),
                    "timeout_seconds": whole("Seconds after which the command is ended; 60 by default, at most 300"),
                    "cwd": text("Directory to run it in"),
                    "env": environment(),
                    "stdin": text("Text for its standard input"),
                }),
                &["sandbox_id", "command"],
            ),
        tool("run_code", "Run code")
            .says(
                "Runs code in a sandbox. Variables and imports last from call to call, as in a notebook. Returns what \
                 it printed, the value of the last expression, and figures as images. Needs a template with an \
                 interpreter, such as code-interpreter.",
            )
            .takes(
                json!({
                    "sandbox_id": sandbox_id(),
                    "code": text("The code"),
                    "language": language,
                    "context_id": text("Context from create_code_context; by default one that all calls share"),
                    "timeout_seconds": whole("Seconds after which the code is ended; 60 by default, at most 300"),
                }),
                &["sandbox_id", "code"],
            ),
        ToolSpec { effect: ToolEffect::Adds, ..tool("create_code_context", "Create a code context") }
            .says("Creates a context for run_code with variables of its own. Returns its id.")
            .takes(json!({"sandbox_id": sandbox_id(), "language": language}), &["sandbox_id"]),
    ]
}

fn files() -> Vec<ToolSpec> {
    let tool = |name, title, effect| tool(Toolset::Files, name, title, effect);
    vec![
        tool("read_file", "Read a file", ToolEffect::Reads)
            .says(
                "Reads a file of a sandbox. Text comes as it is, at most 25,000 bytes at once: a note then names the \
                 offset for the next call. Images (PNG, JPEG, GIF, WebP) come as images.",
            )
            .takes(
                json!({
                    "sandbox_id": sandbox_id(),
                    "path": text("Absolute path"),
                    "offset": whole("Byte to start at; 0 by default"),
                    "limit": whole("Most bytes to read; 25,000 by default and at most"),
                }),
                &["sandbox_id", "path"],
            ),
        tool("write_file", "Write a file", ToolEffect::Sets)
            .says("Writes a file of a sandbox. Missing directories are made, and an existing file is replaced.")
            .takes(
                json!({
                    "sandbox_id": sandbox_id(),
                    "path": text("Absolute path"),
                    "content": text("The whole content of the file"),
                    "encoding": {"type": "string", "enum": ["utf-8", "base64"],
                                 "description": "Form of content; utf-8 by default, base64 for binary files"},
                }),
                &["sandbox_id", "path", "content"],
            ),
        tool("list_dir", "List a directory", ToolEffect::Reads)
            .says("Lists a directory of a sandbox: name, size, mode and time of each entry.")
            .takes(
                json!({
                    "sandbox_id": sandbox_id(),
                    "path": text("Absolute path; /workspace by default"),
                    "depth": whole("Levels to list; 1 by default"),
                }),
                &["sandbox_id"],
            ),
    ]
}

fn processes() -> Vec<ToolSpec> {
    let tool = |name, title, effect| tool(Toolset::Processes, name, title, effect);
    vec![
        tool("start_process", "Start a background process", ToolEffect::Runs)
            .says(
                "Starts a shell command in the background of a sandbox and returns at once with its process id: for \
                 servers, watchers and long work. Read its output with read_process_output, end it with stop_process.",
            )
            .takes(
                json!({
                    "sandbox_id": sandbox_id(),
                    "command": text("Command line for sh -c"),
                    "cwd": text("Directory to run it in"),
                    "env": environment(),
                    "tag": text("A name to find it by"),
                    "timeout_seconds": whole("Seconds after which it is ended; no limit by default"),
                }),
                &["sandbox_id", "command"],
            ),
        tool("list_processes", "List background processes", ToolEffect::Reads)
            .says("Lists the processes that start_process started, with their states and exit codes.")
            .takes(json!({"sandbox_id": sandbox_id()}), &["sandbox_id"]),
        tool("read_process_output", "Read a process's output", ToolEffect::Reads)
            .says(
                "Returns the output of a background process from an offset on, with its status and exit code. Give \
                 next_offset of one answer as the offset of the next call, so that nothing is read twice.",
            )
            .takes(
                json!({
                    "sandbox_id": sandbox_id(),
                    "process_id": process_id(),
                    "offset": whole("Byte of the output to start at; 0 by default"),
                    "wait_seconds": whole("Seconds to wait for new output or the end; 0 by default, at most 60"),
                }),
                &["sandbox_id", "process_id"],
            ),
        tool("stop_process", "Stop a background process", ToolEffect::Removes)
            .says("Sends a signal to a background process and its children. With remove it is killed and forgotten.")
            .takes(
                json!({
                    "sandbox_id": sandbox_id(),
                    "process_id": process_id(),
                    "signal": text("TERM by default; INT, KILL, HUP, …"),
                    "remove": yes_or_no("Kill it and remove it with its output"),
                }),
                &["sandbox_id", "process_id"],
            ),
    ]
}

fn copies() -> Vec<ToolSpec> {
    let tool = |name, title, effect| tool(Toolset::Copies, name, title, effect);
    let count = |what: &str| json!({"type": "integer", "minimum": 1, "maximum": 16, "description": what});
    vec![
        tool("fork_sandbox", "Fork a sandbox", ToolEffect::Adds)
            .says(
                "Copies a running sandbox with its memory, files and processes. Each copy goes on independently from \
                 this moment. Use it to try several ways without losing the state that was reached.",
            )
            .takes(
                json!({"sandbox_id": sandbox_id(), "count": count("Number of copies; 1 by default"),
                       "metadata": labels()}),
                &["sandbox_id"],
            ),
        tool("fork_tree", "Fork into a tree", ToolEffect::Adds)
            .says(
                "Copies a sandbox several times as one tree. Try a different way in each copy, then keep the best one \
                 with promote_sandbox. Returns tree_id and the copies.",
            )
            .takes(
                json!({"sandbox_id": sandbox_id(), "count": count("Number of copies"), "metadata": labels()}),
                &["sandbox_id"],
            ),
        tool("promote_sandbox", "Keep one copy of a tree", ToolEffect::Removes)
            .says("Keeps the sandbox that won and deletes the other copies of its tree.")
            .takes(
                json!({
                    "sandbox_id": text("Id of the copy to keep"),
                    "tree_id": text("Id of the tree, from fork_tree"),
                    "cleanup_siblings": yes_or_no("Delete the other copies; true by default"),
                }),
                &["sandbox_id", "tree_id"],
            ),
        tool("snapshot_sandbox", "Take a snapshot", ToolEffect::Adds)
            .says(
                "Saves the state of a sandbox, memory included. create_sandbox with from_snapshot starts from it, any \
                 number of times.",
            )
            .takes(json!({"sandbox_id": sandbox_id()}), &["sandbox_id"]),
    ]
}

fn databases() -> Vec<ToolSpec> {
    let tool = |name, title, effect| tool(Toolset::Platform, name, title, effect);
    let database = || text("Id of the database, from list_databases");
    let size =
        |usual: &str| json!({"type": "string", "enum": ["1g", "4g", "16g"], "description": format!("Memory; {usual}")});
    vec![
        tool("create_database", "Create a database", ToolEffect::Adds)
            .says(
                "Creates a PostgreSQL database and waits until it is ready. Returns its connection URL. Run SQL in it \
                 with query_database.",
            )
            .takes(json!({"label": text("A name of your own"), "size": size("1g by default")}), &[]),
        tool("branch_database", "Branch a database", ToolEffect::Adds)
            .says(
                "Copies a database as it is now, with its data, and waits until the copy is ready. Try migrations and \
                 risky statements on the copy. Returns its connection URL.",
            )
            .takes(json!({"database_id": database(), "label": text("A name for the copy")}), &["database_id"]),
        tool("clone_database", "Clone a database", ToolEffect::Adds)
            .says(
                "Makes a database from the backups of another one, as that was at a time, for example before a \
                 mistake. Waits until it is ready and returns its connection URL. The other one does not change.",
            )
            .takes(
                json!({
                    "database_id": database(),
                    "target_time": text(
                        "RFC 3339, such as 2026-01-31T23:59:59Z, inside the window of database_backups; the latest by \
                         default"
                    ),
                    "label": text("A name for the clone"),
                    "size": size("that of the other one by default"),
                }),
                &["database_id"],
            ),
        tool("database_backups", "Show the backups of a database", ToolEffect::Reads)
            .says("Shows the backups of a database, the times that it can be cloned at, and whether its archive works.")
            .takes(json!({"database_id": database()}), &["database_id"]),
        tool("list_databases", "List databases", ToolEffect::Reads).says("Lists the databases of this workspace."),
        tool("get_database", "Show a database", ToolEffect::Reads)
            .says(
                "Shows one database: status, size, connection URL with its password for PostgreSQL clients, broker URL \
                 for SQL over HTTP. Does not wake it.",
            )
            .takes(json!({"database_id": database()}), &["database_id"]),
        query_database(database()),
        tool("database_logs", "Show the log of a database", ToolEffect::Reads)
            .says("Returns the last lines of the PostgreSQL log of a running database. Does not wake it.")
            .takes(
                json!({
                    "database_id": database(),
                    "lines": whole("Lines to return; 100 by default, from 10 to 2000"),
                }),
                &["database_id"],
            ),
        tool("delete_database", "Delete a database", ToolEffect::Removes)
            .says("Deletes a database with all its data. This cannot be undone.")
            .takes(json!({"database_id": database()}), &["database_id"]),
    ]
}

fn query_database(database: Value) -> ToolSpec {
    tool(Toolset::Platform, "query_database", "Run SQL in a database", ToolEffect::Runs)
        .says(
            "Runs one SQL statement in a database and returns JSON with columns, rows and their count. A sleeping \
             database wakes. At most 1000 rows come, and fewer if they are long: a note then tells so. Statements that \
             change rows return them only with RETURNING.",
        )
        .takes(
            json!({
                "database_id": database,
                "sql": text("One statement; $1 is the first of params"),
                "params": {
                    "type": "array", "items": {"type": ["string", "number", "boolean", "null"]},
                    "description": "Values of $1, $2 and so on. PostgreSQL converts text to the type that is needed",
                },
                "database": text("Name of a database inside the server; pandastack by default"),
                "timeout_seconds": whole("Seconds after which the statement is ended; 60 by default, at most 300"),
            }),
            &["database_id", "sql"],
        )
}

fn platform() -> Vec<ToolSpec> {
    let tool = |name, title, effect| tool(Toolset::Platform, name, title, effect);
    vec![
        tool("list_templates", "List templates", ToolEffect::Reads)
            .says("Lists the templates that create_sandbox can start from."),
        tool("list_apps", "List apps", ToolEffect::Reads).says("Lists the apps of this workspace."),
        tool("deploy_app", "Deploy an app", ToolEffect::Adds)
            .says("Builds and deploys an app from its Git repository. Returns the deployment, which goes on.")
            .takes(
                json!({
                    "app_id": text("Id of the app, from list_apps"),
                    "git_ref": text("Branch, tag or commit; the app's branch by default"),
                }),
                &["app_id"],
            ),
    ]
}
