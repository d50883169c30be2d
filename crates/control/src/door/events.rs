//! What happened to a sandbox lately. Looking neither wakes it nor counts as a use.

use axum::{Json, extract::State, http::Uri};
use pandastack_model::{Fault, SandboxId};
use pandastack_wire_public::{
    Event, EventList,
    http::{Answer, SandboxPath, query_value},
    rfc3339,
};

use super::caller::Authenticated;
use crate::{Control, events::Happening, limits::EVENTS_PER_SANDBOX_MAX};

/// Lists the last events, oldest first; fewer with `tail`.
pub async fn list(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
    uri: Uri,
) -> Answer<Json<EventList>> {
    let known = control.store.state(&caller.workspace, id).await.map_err(Fault::from)?;
    known.ok_or_else(Fault::no_sandbox)?;
    let tail = query_value(&uri, "tail").and_then(|tail| tail.parse().ok()).unwrap_or(EVENTS_PER_SANDBOX_MAX);
    let events = control.events.tail(id, tail).into_iter().map(|event| render(id, event)).collect();
    Ok(Json(EventList { events }))
}

fn render(id: SandboxId, event: Happening) -> Event {
    let Happening { at_ns, kind, payload } = event;
    let time = rfc3339(at_ns);
    Event {
        ts: time.clone(),
        time,
        sandbox_id: id.to_string(),
        kind: kind.to_owned(),
        metadata: payload.clone(),
        payload,
    }
}
