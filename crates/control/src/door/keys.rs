//! API keys: make, list, revoke.

use axum::{
    Json,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{StatusCode, Uri},
};
use pandastack_door::http::{Answer, flag, optional_json_body};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_public::{ApiKey, ApiKeys, CreateApiKey, KeySpec, rfc3339};

use super::caller::Authenticated;
use crate::{
    Control,
    store::{LastKey, ListedKey},
};

/// Makes a key. This is the only answer that shows it.
pub async fn create(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    body: Body,
) -> Answer<(StatusCode, Json<ApiKey>)> {
    let ask = KeySpec::try_from(optional_json_body::<CreateApiKey>(body).await?)?;
    let made = control.make_key(&caller, &ask).await?;
    let shown = ApiKey { token: Some(made.key.reveal().clone()), ..render(made.stored, None) };
    Ok((StatusCode::CREATED, Json(shown)))
}

/// Lists the keys of the caller's workspace, newest first.
pub async fn list(State(control): State<Control>, Authenticated(caller): Authenticated) -> Answer<Json<ApiKeys>> {
    let found = control.keys_of(&caller).await?;
    Ok(Json(ApiKeys { items: found.into_iter().map(|key| render(key, caller.key.id())).collect() }))
}

/// Revokes a key by its id or its prefix.
pub async fn revoke(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    path: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Answer<StatusCode> {
    let missing = || Fault::new(FaultKind::Missing, "key.not_found", "API key not found");
    let Path(name) = path.map_err(|_| missing())?;
    let last = if flag(&uri, "force") { LastKey::Revoke } else { LastKey::Keep };
    control.revoke_key(&caller, &name, last).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Renders a key. `current` is the id of the request's own key.
pub fn render(key: ListedKey, current: Option<&str>) -> ApiKey {
    let ListedKey { id, prefix, label, created_at_ns, created_by, last_used_at_ns, expires_at_ns } = key;
    ApiKey {
        current: current == Some(id.as_str()),
        id,
        prefix,
        label: Some(label).filter(|label| !label.is_empty()),
        created_at: rfc3339(created_at_ns),
        created_by,
        last_used_at: last_used_at_ns.map(rfc3339),
        expires_at: expires_at_ns.map(rfc3339),
        token: None,
    }
}
