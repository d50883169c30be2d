//! The list of public endpoints. A route that is not here is internal.

/// Which room answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Control,
    Edge,
}

/// One public route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub method: &'static str,
    pub path: &'static str,
    pub room: Room,
    /// What it is for, in a few words.
    pub about: &'static str,
}

const fn control(method: &'static str, path: &'static str, about: &'static str) -> Endpoint {
    Endpoint { method, path, room: Room::Control, about }
}

const fn edge(method: &'static str, path: &'static str, about: &'static str) -> Endpoint {
    Endpoint { method, path, room: Room::Edge, about }
}

/// Every public route.
pub const ENDPOINTS: &[Endpoint] = &[
    control("GET", "/healthz", "says whether the server can work"),
    control("GET", "/v1/healthz", "the same, under the API root"),
    control("GET", "/version", "names the build"),
    control("GET", "/v1/version", "the same, under the API root"),
    control("GET", "/v1/me", "tells whose key this is"),
    control("GET", "/v1/templates", "lists what a sandbox can start from"),
    control("GET", "/v1/templates/{name}", "shows one template"),
    control("POST", "/v1/sandboxes", "creates a sandbox and answers when it is usable"),
    control("GET", "/v1/sandboxes", "lists the caller's sandboxes, newest first"),
    control("GET", "/v1/sandboxes/{id}", "shows one sandbox"),
    control("DELETE", "/v1/sandboxes/{id}", "deletes a sandbox"),
    control("POST", "/v1/sandboxes/{id}/pause", "stops its CPUs; memory stays"),
    control("POST", "/v1/sandboxes/{id}/resume", "lets its CPUs run again"),
    control("POST", "/v1/sandboxes/{id}/hibernate", "puts it to sleep: memory and disk into a layer, no machine"),
    control("POST", "/v1/sandboxes/{id}/stop", "the same"),
    control("POST", "/v1/sandboxes/{id}/wake", "wakes it; fine if it is awake"),
    control("POST", "/v1/sandboxes/{id}/start", "the same"),
    control("GET", "/v1/sandboxes/{id}/lifecycle", "shows its idle limit and how long it has been idle"),
    control("PATCH", "/v1/sandboxes/{id}/lifecycle", "changes its idle limit"),
    control("GET", "/v1/sandboxes/{id}/egress", "shows what it may reach"),
    control("PUT", "/v1/sandboxes/{id}/egress", "changes what it may reach, at once"),
    control("GET", "/v1/sandboxes/{id}/events", "tells what happened to it lately"),
    control("POST", "/v1/sandboxes/{id}/snapshots", "keeps its memory and disk as they are now"),
    control("POST", "/v1/sandboxes/{id}/fork", "makes a running copy of it"),
    control("POST", "/v1/sandboxes/{id}/fork-tree", "makes several copies that belong together"),
    control("POST", "/v1/sandboxes/{id}/promote", "keeps one copy of a tree, and deletes the others if asked"),
    control("GET", "/v1/sandboxes/{id}/tree", "shows its ancestors, siblings and descendants"),
    control("GET", "/v1/sandboxes/{id}/ports", "lists its listening and declared ports"),
    control("POST", "/v1/sandboxes/{id}/ports", "declares a port"),
    control("DELETE", "/v1/sandboxes/{id}/ports/{port}", "takes a declaration back"),
    control("POST", "/v1/sandboxes/{id}/preview-token", "signs a preview of a port, for some paths and some time"),
    control("POST", "/v1/sandboxes/{id}/preview", "the same"),
    control("GET", "/v1/snapshots", "lists snapshots, newest first"),
    control("GET", "/v1/snapshots/{snapshot}", "shows one snapshot"),
    control("DELETE", "/v1/snapshots/{snapshot}", "deletes a snapshot"),
    control("POST", "/v1/volumes", "makes a durable disk"),
    control("GET", "/v1/volumes", "lists volumes by name"),
    control("GET", "/v1/volumes/{name}", "shows one volume"),
    control("PATCH", "/v1/volumes/{name}", "grows a volume, also while it is in use"),
    control("DELETE", "/v1/volumes/{name}", "deletes a volume that nobody uses"),
    control("GET", "/v1/host/audit", "compares what the host has with what it should have"),
    edge("POST", "/v1/sandboxes/{id}/exec", "runs a command and answers with its output"),
    edge("POST", "/v1/sandboxes/{id}/exec/stream", "runs a command and streams its output"),
    edge("GET", "/v1/sandboxes/{id}/exec/ws", "a socket that runs many commands at once"),
    edge("GET", "/v1/sandboxes/{id}/exec/pty", "a socket with a terminal on it"),
    edge("GET", "/v1/sandboxes/{id}/ssh", "the same, as the command line's ssh speaks it"),
    edge("GET", "/v1/sandboxes/{id}/fs", "reads a file"),
    edge("PUT", "/v1/sandboxes/{id}/fs", "writes a file, whole or not at all"),
    edge("DELETE", "/v1/sandboxes/{id}/fs", "deletes a path and everything below it"),
    edge("GET", "/v1/sandboxes/{id}/fs/dir", "lists a directory"),
    edge("GET", "/v1/sandboxes/{id}/fs/stat", "describes a path"),
    edge("POST", "/v1/sandboxes/{id}/repl/sessions", "opens a code session, which keeps its state from cell to cell"),
    edge("GET", "/v1/sandboxes/{id}/repl/sessions", "lists code sessions, oldest first"),
    edge(
        "POST",
        "/v1/sandboxes/{id}/repl/sessions/{session}/run",
        "runs a cell and answers with its output and results",
    ),
    edge("DELETE", "/v1/sandboxes/{id}/repl/sessions/{session}", "closes a code session"),
    edge("POST", "/v1/sandboxes/{id}/repl", "runs code by itself"),
    edge("GET", "/v1/repl/languages", "lists the languages that code can be run in"),
    edge("GET", "/repl/languages", "the same, at the root"),
    edge("POST", "/v1/sandboxes/{id}/mcp", "the sandbox as tools for agents, by the Model Context Protocol"),
    edge("ANY", "/v1/sandboxes/{id}/proxy/{port}/{path}", "passes a request on to a port in the sandbox"),
    edge("ANY", "/v1/p/{token}/{path}", "does the same for whoever has a signed preview"),
];
