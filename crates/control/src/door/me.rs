//! Shows the caller's identity.

use axum::{Json, extract::State};
use pandastack_door::http::Answer;
use pandastack_wire_fleet::AuthMethod;
use pandastack_wire_public::Me;

use super::{caller::Authenticated, orgs::render};
use crate::Control;

/// Shows the caller. A key stands for its workspace.
pub async fn me(State(control): State<Control>, Authenticated(caller): Authenticated) -> Answer<Json<Me>> {
    let workspace = caller.workspace.0;
    let Some(user) = caller.user else {
        return Ok(Json(Me {
            user_id: workspace.clone(),
            email: String::new(),
            current_org: None,
            current_org_id: None,
            orgs: Vec::new(),
            auth_method: "token".to_owned(),
            workspace,
            operator: false,
        }));
    };
    let orgs: Vec<_> = control.orgs(&user).await?.into_iter().map(render).collect();
    let method = match user.method {
        AuthMethod::Session => "session",
        AuthMethod::Jwt => "jwt",
        AuthMethod::Stub => "stub",
    };
    Ok(Json(Me {
        user_id: user.id.clone(),
        email: user.email.clone(),
        current_org: orgs.iter().find(|org| org.id == user.org).cloned(),
        current_org_id: Some(user.org.clone()),
        orgs,
        auth_method: method.to_owned(),
        workspace,
        operator: user.operator,
    }))
}
