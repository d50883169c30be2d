//! Shows the caller's identity.

use axum::Json;
use pandastack_wire_public::Me;

use super::caller::Authenticated;

/// Shows the caller. A key stands for its workspace; there are no users or organisations yet.
pub async fn me(Authenticated(caller): Authenticated) -> Json<Me> {
    Json(Me {
        user_id: caller.workspace.0,
        email: String::new(),
        current_org: None,
        orgs: Vec::new(),
        auth_method: "token".to_owned(),
    })
}
