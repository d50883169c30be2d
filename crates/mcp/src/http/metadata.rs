//! Where OAuth clients get a token for this server (RFC 9728).

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, Uri},
};
use serde_json::{Value, json};

use super::McpDoor;

/// The path that RFC 9728 fixes.
pub const PATH: &str = "/.well-known/oauth-protected-resource";

/// Describes this server as a protected resource. Without an issuer, its API keys are the tokens.
pub async fn show(State(door): State<McpDoor>, headers: HeaderMap, uri: Uri) -> Json<Value> {
    let mut about = json!({
        "resource": door.base(&headers, &uri),
        "resource_name": "PandaStack",
        "bearer_methods_supported": ["header"],
    });
    if !door.settings.issuers.is_empty() {
        about["authorization_servers"] = json!(door.settings.issuers);
    }
    Json(about)
}
