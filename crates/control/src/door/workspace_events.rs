//! Past and future events of the caller's workspace.

use std::time::Duration;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, Uri},
    response::{IntoResponse, Response},
};
use futures_util::stream::unfold;
use pandastack_door::{
    EndlessStream, Place,
    http::{Answer, event_stream, flag, query_value},
};
use pandastack_wire_public::{EventPlace, KindFilter, WorkspaceEvents, sse};
use tokio::time::Instant;

use super::caller::Authenticated;
use crate::{
    Control,
    limits::{EVENT_STREAM_MAX, EVENTS_PER_WORKSPACE_MAX, KEEPALIVE, WORKSPACE_EVENTS_LISTED},
    workspace_events::{EventCursor, FeedReader, FollowedNews, WorkspaceFollower},
};

/// How long a browser waits before it opens the stream again.
const RETRY: Duration = Duration::from_secs(1);

/// Lists the last events, oldest first, or follows them from a place.
pub async fn list(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    headers: HeaderMap,
    uri: Uri,
) -> Answer<Response> {
    // Events are in the memory of the server with the host.
    control.need_host()?;
    let (log, now_ns) = (control.store.workspace_events(), control.clock.now_ns());
    // A browser that connects again knows better than the address it began with.
    let heard = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let since = heard.or_else(|| query_value(&uri, "since")).filter(|since| !since.is_empty());
    // An unreadable place is one of long ago.
    let since = since.map(|since| since.parse().unwrap_or_else(|()| EventCursor::unknown()));
    let kinds = KindFilter::read(query_value(&uri, "kind").as_deref())?;
    let reader = FeedReader { caller, kinds };
    if !flag(&uri, "follow") {
        let limit = query_value(&uri, "limit").and_then(|limit| limit.parse().ok());
        let limit = limit.unwrap_or(WORKSPACE_EVENTS_LISTED).min(EVENTS_PER_WORKSPACE_MAX);
        let (events, cursor) = log.tail(&reader, (since.as_ref(), limit), now_ns);
        return Ok(Json(WorkspaceEvents { events, cursor: cursor.to_string() }).into_response());
    }
    let place = control.front.followers.take(Some(&reader.caller.workspace))?;
    let (follower, here) = log.follow(&reader, since.as_ref(), now_ns);
    let begin = since.unwrap_or(here);
    let said = format!("retry: {}\n{}", RETRY.as_millis(), write_place("ready", &begin));
    let telling = FollowedWorkspace { follower, until: Instant::now() + EVENT_STREAM_MAX, _place: place };
    let mut response = event_stream(unfold((Some(said), telling), |(said, telling)| async move {
        match said {
            Some(said) => Some((said, (None, telling))),
            None => telling.next().await.map(|(said, telling)| (said, (None, telling))),
        }
    }));
    response.extensions_mut().insert(EndlessStream);
    Ok(response)
}

struct FollowedWorkspace {
    follower: WorkspaceFollower,
    until: Instant,
    _place: Place,
}

impl FollowedWorkspace {
    async fn next(mut self) -> Option<(String, Self)> {
        if Instant::now() >= self.until {
            return None;
        }
        let said = match tokio::time::timeout(KEEPALIVE, self.follower.next()).await {
            Ok(FollowedNews::Events(events)) => {
                events.iter().map(|event| sse::event_with_id("event", &event.id, event)).collect()
            }
            Ok(FollowedNews::Lost(here)) => write_place("reset", &here),
            Err(_) => sse::KEEPALIVE.to_owned(),
        };
        Some((said, self))
    }
}

fn write_place(name: &str, place: &EventCursor) -> String {
    sse::event_with_id(name, place, &EventPlace { cursor: place.to_string() })
}
