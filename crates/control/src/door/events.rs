//! Past and future events of a sandbox. Reading them neither wakes the sandbox nor counts as use.

use axum::{
    Json,
    extract::State,
    http::Uri,
    response::{IntoResponse, Response},
};
use futures_util::stream::unfold;
use pandastack_door::Place;
use pandastack_door::http::{Answer, SandboxPath, event_stream, flag, query_time, query_value};
use pandastack_model::{Fault, SandboxId};
use pandastack_wire_public::{Event, EventList, sse};

use super::caller::Authenticated;
use crate::{
    Control,
    events::{EventFollower, SandboxEvent},
    limits::{EVENTS_PER_SANDBOX_MAX, KEEPALIVE},
};

/// Lists the last events, oldest first. `tail` and `since` limit them. With `follow`, later events
/// are streamed after them.
pub async fn list(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
    uri: Uri,
) -> Answer<Response> {
    let known = control.store.state(&caller.workspace, id).await.map_err(Fault::from)?;
    known.ok_or_else(Fault::no_sandbox)?;
    // Events are in the memory of the server with the host.
    control.need_host()?;
    let tail = query_value(&uri, "tail").and_then(|tail| tail.parse().ok()).unwrap_or(EVENTS_PER_SANDBOX_MAX);
    let since_ns = query_time(&uri, "since")?.unwrap_or(0);
    let past = |events: Vec<SandboxEvent>| -> Vec<Event> {
        let recent =
            events.into_iter().filter(|event| event.at_ns >= since_ns).map(|event| event.render(&id.to_string()));
        recent.collect()
    };
    if !flag(&uri, "follow") {
        return Ok(Json(EventList { events: past(control.store.events().tail(id, tail)) }).into_response());
    }
    let place = control.front.followers.take(Some(&caller.workspace))?;
    // Before reading the past: an event in between is sent twice rather than lost.
    let follower = control.store.events().follow(id, control.clock.now_ns());
    let said = past(control.store.events().tail(id, tail))
        .iter()
        .fold(": open\n\n".to_owned(), |said, event| said + &write(event));
    let telling = Telling { id, follower, _place: place };
    Ok(event_stream(unfold((Some(said), Some(telling)), |(said, telling)| async move {
        match said {
            Some(said) => Some((said, (None, telling))),
            None => telling?.next().await.map(|(said, telling)| (said, (None, Some(telling)))),
        }
    })))
}

struct Telling {
    id: SandboxId,
    follower: EventFollower,
    _place: Place,
}

impl Telling {
    async fn next(mut self) -> Option<(String, Self)> {
        let said = match tokio::time::timeout(KEEPALIVE, self.follower.next()).await {
            Ok(Some(events)) => events.into_iter().map(|event| write(&event.render(&self.id.to_string()))).collect(),
            Ok(None) => return None,
            Err(_) => sse::KEEPALIVE.to_owned(),
        };
        Some((said, self))
    }
}

fn write(event: &Event) -> String {
    sse::event("event", event)
}
