//! Routes that the front door treats specially. Every other route is handled alike.

/// Public routes without a key, a rate limit or a span.
pub const EXEMPT: [&str; 8] =
    ["/healthz", "/v1/healthz", "/version", "/v1/version", "/metrics", "/v1/metrics", "/openapi.json", "/docs"];

/// Routes whose answers are too short to hold a connection open. They work even if all places are
/// taken.
pub const QUICK: [&str; 4] = ["/healthz", "/v1/healthz", "/version", "/v1/version"];

/// Prefix of routes that forward requests to a guest. They have no rate limit and no audit entry.
pub const FORWARDED: &str = "/v1/sandboxes/{id}/proxy/";

/// Prefix of the routes of a database's HTTP broker. Their token is that of the database and names
/// no caller. Their handler checks it, and takes a place of the database.
pub const BROKER: &str = "/v1/databases/{id}/proxy/";

/// Prefix of routes whose paths hold a credential.
pub const SIGNED: &str = "/v1/p/";

/// The routes whose POST creates something. Builds handle their key themselves, because their body
/// is too large to buffer. Answers are stored: a route whose answer has a secret may not be here.
/// A new database has no credentials yet.
pub const CREATING: [&str; 13] = [
    "/v1/sandboxes",
    "/v1/sandboxes/{id}/fork",
    "/v1/sandboxes/{id}/fork-tree",
    "/v1/sandboxes/{id}/snapshots",
    "/v1/sandboxes/{id}/preview-token",
    "/v1/sandboxes/{id}/preview",
    "/v1/volumes",
    "/v1/webhooks",
    "/v1/databases",
    "/v1/databases/{id}/branches",
    "/v1/databases/{id}/clone",
    "/v1/sandboxes/{id}/processes",
    "/v1/sandboxes/{id}/repl/sessions",
];

/// Those among them that create something in a guest. It has no id before it is made, so it cannot
/// be undone by id.
pub const IN_GUEST: [&str; 2] = ["/v1/sandboxes/{id}/processes", "/v1/sandboxes/{id}/repl/sessions"];
