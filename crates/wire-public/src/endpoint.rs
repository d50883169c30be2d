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
    edge("POST", "/v1/sandboxes/{id}/exec", "runs a command and answers with its output"),
    edge("POST", "/v1/sandboxes/{id}/exec/stream", "runs a command and streams its output"),
    edge("GET", "/v1/sandboxes/{id}/fs", "reads a file"),
    edge("PUT", "/v1/sandboxes/{id}/fs", "writes a file, whole or not at all"),
    edge("DELETE", "/v1/sandboxes/{id}/fs", "deletes a path and everything below it"),
    edge("GET", "/v1/sandboxes/{id}/fs/dir", "lists a directory"),
    edge("GET", "/v1/sandboxes/{id}/fs/stat", "describes a path"),
];
