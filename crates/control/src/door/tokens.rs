//! The published clients' routes for keys. They are for persons: a caller with a key is refused and
//! uses `/v1/api-keys`.

use axum::{
    Json,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::StatusCode,
};
use pandastack_door::http::{Answer, optional_json_body};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_public::{ApiKey, ApiKeys, CreateApiKey, KeySpec};

use super::{caller::Person, keys::render};
use crate::{Control, store::LastKey};

/// Lists the keys of the current organisation, newest first.
pub async fn list(State(control): State<Control>, person: Person) -> Answer<Json<ApiKeys>> {
    let found = control.keys_of(&person.caller).await?;
    Ok(Json(ApiKeys { items: found.into_iter().map(|key| render(key, None)).collect() }))
}

/// Makes a key. This is the only answer that shows it.
pub async fn create(State(control): State<Control>, person: Person, body: Body) -> Answer<Json<ApiKey>> {
    let ask = KeySpec::try_from(optional_json_body::<CreateApiKey>(body).await?)?;
    let made = control.make_key(&person.caller, &ask).await?;
    Ok(Json(ApiKey { token: Some(made.key.reveal().clone()), ..render(made.stored, None) }))
}

/// Revokes the keys with a prefix. Even the last one: a person can log in without a key.
pub async fn revoke(
    State(control): State<Control>,
    person: Person,
    path: Result<Path<String>, PathRejection>,
) -> Answer<StatusCode> {
    let missing = || Fault::new(FaultKind::Missing, "key.not_found", "API key not found");
    let Path(prefix) = path.map_err(|_| missing())?;
    control.revoke_key(&person.caller, &prefix, LastKey::Revoke).await?;
    Ok(StatusCode::NO_CONTENT)
}
