//! Recent events of each workspace, kept in memory, and the followers that wait for new ones. A
//! follower that was away continues after the last event that it saw.

mod change;
mod cursor;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub use change::{EventReaders, WorkspaceChange};
pub use cursor::EventCursor;
use cursor::ring_name;
use pandastack_model::EventKind;
use pandastack_wire_fleet::{Caller, WorkspaceId};
use pandastack_wire_public::{KindFilter, WorkspaceEvent, rfc3339};
use tokio::sync::watch;

use crate::limits::{EVENT_WORKSPACES_MAX, EVENTS_PER_WORKSPACE_MAX, NOISE_EVENTS_PER_SECOND};

const NS_PER_SECOND: u64 = 1_000_000_000;

/// The recent events of every workspace.
#[derive(Default)]
pub struct WorkspaceLog {
    rings: Mutex<HashMap<WorkspaceId, Arc<WorkspaceRing>>>,
}

/// Who reads the events of its workspace, and of which machines.
#[derive(Clone, Debug)]
pub struct FeedReader {
    pub caller: Caller,
    pub kinds: KindFilter,
}

/// The events of one workspace. Numbers of different rings are not related, so that nobody learns
/// how much others do.
struct WorkspaceRing {
    name: String,
    kept: Mutex<KeptChanges>,
    /// Number of events so far.
    news: watch::Sender<u64>,
}

#[derive(Default)]
struct KeptChanges {
    changes: VecDeque<WorkspaceChange>,
    /// Number of events so far, which is the number of the newest one.
    count: u64,
    touched_ns: u64,
    /// The second and the number of events in it that guests can cause at will.
    noise: (u64, u32),
}

/// What a follower hears.
#[derive(Debug, PartialEq)]
pub enum FollowedNews {
    Events(Vec<WorkspaceEvent>),
    /// Events were lost: read the present state. Events continue after this place.
    Lost(EventCursor),
}

impl WorkspaceLog {
    /// Adds an event.
    pub fn record(&self, workspace: &WorkspaceId, change: WorkspaceChange) {
        let ring = self.ring(workspace, change.at_ns);
        let mut kept = ring.lock();
        if change.kind == EventKind::EgressDenied.as_str() && !kept.has_room_for_noise(change.at_ns) {
            return;
        }
        kept.push(change);
        ring.news.send_replace(kept.count);
    }

    /// Returns the last events that a caller may see, oldest first, and the place after them. With
    /// a known place, only the events after it.
    pub fn tail(
        &self,
        reader: &FeedReader,
        (since, count): (Option<&EventCursor>, usize),
        at_ns: u64,
    ) -> (Vec<WorkspaceEvent>, EventCursor) {
        let ring = self.ring(&reader.caller.workspace, at_ns);
        let kept = ring.lock();
        let after = since.filter(|since| since.ring == ring.name).map_or(0, |since| since.number);
        let mut seen = ring.visible(&kept, reader, after);
        seen.drain(..seen.len().saturating_sub(count));
        (seen, ring.cursor(&kept))
    }

    /// Follows a workspace after a place, or from its next event. Also returns where that is.
    pub fn follow(
        &self,
        reader: &FeedReader,
        since: Option<&EventCursor>,
        at_ns: u64,
    ) -> (WorkspaceFollower, EventCursor) {
        let ring = self.ring(&reader.caller.workspace, at_ns);
        let (here, seen) = {
            let kept = ring.lock();
            let seen = match since {
                None => Some(kept.count),
                Some(since) => (since.ring == ring.name && since.number <= kept.count).then_some(since.number),
            };
            (ring.cursor(&kept), seen)
        };
        let news = ring.news.subscribe();
        (WorkspaceFollower { ring, news, seen, reader: reader.clone() }, here)
    }

    fn ring(&self, workspace: &WorkspaceId, at_ns: u64) -> Arc<WorkspaceRing> {
        let mut rings = self.lock();
        if rings.len() >= EVENT_WORKSPACES_MAX && !rings.contains_key(workspace) {
            // A ring with a follower stays: the follower would hear no more.
            let unheard = rings.iter().filter(|(_, ring)| ring.news.receiver_count() == 0);
            let oldest = unheard.min_by_key(|(_, ring)| ring.lock().touched_ns).map(|(workspace, _)| workspace.clone());
            oldest.map(|oldest| rings.remove(&oldest));
        }
        let ring = rings.entry(workspace.clone()).or_default().clone();
        ring.lock().touched_ns = at_ns;
        ring
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Arc<WorkspaceRing>>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for WorkspaceRing {
    fn default() -> Self {
        Self { name: ring_name(), kept: Mutex::default(), news: watch::Sender::default() }
    }
}

impl WorkspaceRing {
    fn lock(&self) -> MutexGuard<'_, KeptChanges> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cursor(&self, kept: &KeptChanges) -> EventCursor {
        EventCursor { ring: self.name.clone(), number: kept.count }
    }

    /// Renders the events after a number that a caller may see.
    fn visible(&self, kept: &KeptChanges, reader: &FeedReader, after: u64) -> Vec<WorkspaceEvent> {
        let first = kept.first_number();
        let numbered = (first..).zip(&kept.changes).filter(|(number, _)| *number > after);
        let seen = numbered.filter(|(_, change)| change.readers.has(&reader.caller) && change.is_shown(reader.kinds));
        seen.map(|(number, change)| {
            let id = EventCursor { ring: self.name.clone(), number }.to_string();
            WorkspaceEvent {
                id,
                ts: rfc3339(change.at_ns),
                kind: change.kind.to_owned(),
                sandbox_id: change.sandbox.map(|id| id.to_string()),
                database_id: change.database().map(|id| id.to_string()),
                payload: change.payload.clone(),
            }
        })
        .collect()
    }
}

impl KeptChanges {
    fn push(&mut self, change: WorkspaceChange) {
        if self.changes.len() >= EVENTS_PER_WORKSPACE_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
        self.count += 1;
    }

    /// The number of the oldest kept event.
    fn first_number(&self) -> u64 {
        self.count + 1 - self.changes.len() as u64
    }

    /// Counts an event that a guest caused. It must not push all others out.
    fn has_room_for_noise(&mut self, at_ns: u64) -> bool {
        let second = at_ns / NS_PER_SECOND;
        if self.noise.0 != second {
            self.noise = (second, 0);
        }
        self.noise.1 += 1;
        self.noise.1 <= NOISE_EVENTS_PER_SECOND
    }
}

/// A subscription to the events of one workspace.
pub struct WorkspaceFollower {
    ring: Arc<WorkspaceRing>,
    news: watch::Receiver<u64>,
    /// The number of the last event that was heard. `None` if events were lost.
    seen: Option<u64>,
    reader: FeedReader,
}

impl WorkspaceFollower {
    /// Waits for events.
    pub async fn next(&mut self) -> FollowedNews {
        loop {
            self.news.mark_unchanged();
            let fresh = {
                let kept = self.ring.lock();
                let seen = self.seen.replace(kept.count).filter(|seen| *seen + 1 >= kept.first_number());
                let Some(seen) = seen else { return FollowedNews::Lost(self.ring.cursor(&kept)) };
                self.ring.visible(&kept, &self.reader, seen)
            };
            if !fresh.is_empty() {
                return FollowedNews::Events(fresh);
            }
            // This follower holds the ring, so its sender never closes.
            drop(self.news.changed().await);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pandastack_model::{Role, SandboxId};
    use pandastack_wire_fleet::{AuthMethod, CallerUser};
    use pandastack_wire_public::MachineKind;
    use serde_json::{Value, json};

    use super::*;
    use crate::events::SandboxEvent;

    fn key(workspace: &str) -> FeedReader {
        reads(Caller::of(WorkspaceId(workspace.to_owned())), KindFilter::default())
    }

    fn reads(caller: Caller, kinds: KindFilter) -> FeedReader {
        FeedReader { caller, kinds }
    }

    fn person(workspace: &str, role: Role) -> FeedReader {
        let user = CallerUser {
            id: "u".into(),
            email: String::new(),
            operator: false,
            org: "o".into(),
            role,
            method: AuthMethod::Session,
        };
        let FeedReader { caller, kinds } = key(workspace);
        reads(Caller { user: Some(Arc::new(user)), ..caller }, kinds)
    }

    fn told(log: &WorkspaceLog, workspace: &str, number: u64) {
        let change = WorkspaceChange::new("volume.changed", number, json!({"n": number}));
        log.record(&WorkspaceId(workspace.to_owned()), change);
    }

    fn numbers(events: &[WorkspaceEvent]) -> Vec<u64> {
        events.iter().map(|event| event.payload["n"].as_u64().unwrap()).collect()
    }

    async fn heard(follower: &mut WorkspaceFollower) -> FollowedNews {
        tokio::time::timeout(Duration::from_secs(60), follower.next()).await.expect("news")
    }

    async fn hears_nothing(follower: &mut WorkspaceFollower) {
        assert!(tokio::time::timeout(Duration::from_millis(20), follower.next()).await.is_err());
    }

    #[tokio::test]
    async fn a_follower_hears_its_own_workspace_and_no_other() {
        let log = WorkspaceLog::default();
        told(&log, "a", 1);
        let (mut follower, _) = log.follow(&key("a"), None, 1);
        told(&log, "b", 2);
        hears_nothing(&mut follower).await;
        told(&log, "a", 3);
        let FollowedNews::Events(events) = heard(&mut follower).await else { panic!("lost") };
        assert_eq!(numbers(&events), [3]);
        assert_eq!(numbers(&log.tail(&key("b"), (None, 9), 4).0), [2]);
    }

    #[tokio::test]
    async fn a_follower_continues_where_it_was() {
        let log = WorkspaceLog::default();
        told(&log, "a", 1);
        let (_, place) = log.follow(&key("a"), None, 1);
        for number in 2..5 {
            told(&log, "a", number);
        }
        let (mut follower, _) = log.follow(&key("a"), Some(&place), 5);
        let FollowedNews::Events(events) = heard(&mut follower).await else { panic!("lost") };
        assert_eq!(numbers(&events), [2, 3, 4]);
        let last: EventCursor = events[2].id.parse().unwrap();
        let (mut follower, here) = log.follow(&key("a"), Some(&last), 5);
        assert_eq!(here, last);
        assert_eq!(numbers(&log.tail(&key("a"), (Some(&place), 2), 5).0), [3, 4]);
        hears_nothing(&mut follower).await;
    }

    #[tokio::test]
    async fn a_follower_learns_that_it_missed_events() {
        let log = WorkspaceLog::default();
        told(&log, "a", 0);
        let (mut slow, place) = log.follow(&key("a"), None, 1);
        let (mut other, foreign) = log.follow(&key("b"), None, 1);
        for number in 0..=EVENTS_PER_WORKSPACE_MAX as u64 {
            told(&log, "a", number);
        }
        let here = log.tail(&key("a"), (None, 0), 2).1;
        assert_eq!(heard(&mut slow).await, FollowedNews::Lost(here.clone()), "it was too slow");
        let ahead = EventCursor { number: here.number + 1, ..here.clone() };
        for since in [place, foreign, ahead] {
            let (mut follower, _) = log.follow(&key("a"), Some(&since), 2);
            assert_eq!(heard(&mut follower).await, FollowedNews::Lost(here.clone()), "{since}");
            hears_nothing(&mut follower).await;
        }
        hears_nothing(&mut other).await;
    }

    #[test]
    fn readers_are_people_and_their_roles() {
        let log = WorkspaceLog::default();
        for (number, readers) in [(1, EventReaders::Everybody), (2, EventReaders::People), (3, EventReaders::Admins)] {
            let change = WorkspaceChange::new("x", number, json!({"n": number}));
            log.record(&WorkspaceId("a".into()), WorkspaceChange { readers, ..change });
        }
        let seen = |reader: FeedReader| numbers(&log.tail(&reader, (None, 9), 4).0);
        assert_eq!(seen(key("a")), [1]);
        assert_eq!(seen(person("a", Role::Member)), [1, 2]);
        assert_eq!((seen(person("a", Role::Admin)), seen(person("a", Role::Owner))), (vec![1, 2, 3], vec![1, 2, 3]));
        assert_eq!(seen(person("b", Role::Owner)), Vec::<u64>::new());
    }

    #[test]
    fn machines_of_databases_are_told_of_only_on_request() {
        let (log, workspace, id) = (WorkspaceLog::default(), WorkspaceId("a".into()), SandboxId::random());
        let kinds = [EventKind::Running, EventKind::EgressDenied, EventKind::DatabaseGrown];
        for (number, kind) in (1..).zip(kinds) {
            let event = SandboxEvent::new(kind, number, json!({"n": number}));
            log.record(&workspace, WorkspaceChange::of((id, MachineKind::Database), &event));
        }
        told(&log, "a", 4);
        let seen = |kinds| log.tail(&reads(key("a").caller, kinds), (None, 9), 4).0;
        assert_eq!(numbers(&seen(KindFilter::Sandboxes)), [3, 4]);
        assert_eq!(numbers(&seen(KindFilter::Databases)), [1, 2, 3]);
        let all = seen(KindFilter::All);
        assert_eq!(numbers(&all), [1, 2, 3, 4]);
        assert_eq!(all.iter().map(|event| event.database_id.is_some()).collect::<Vec<_>>(), [true, true, true, false]);
        assert_eq!(numbers(&log.tail(&key("a"), (None, 1), 4).0), [4], "the last ones of those that are shown");
    }

    #[test]
    fn a_guest_cannot_push_the_other_events_out() {
        let log = WorkspaceLog::default();
        told(&log, "a", 7);
        for _ in 0..2 * EVENTS_PER_WORKSPACE_MAX {
            let denied = SandboxEvent::new(EventKind::EgressDenied, 1, json!({"n": 0}));
            log.record(
                &WorkspaceId("a".into()),
                WorkspaceChange::of((SandboxId::random(), MachineKind::Sandbox), &denied),
            );
        }
        let seen = log.tail(&key("a"), (None, usize::MAX), 2).0;
        assert_eq!((seen.len(), numbers(&seen)[0]), (1 + NOISE_EVENTS_PER_SECOND as usize, 7));
    }

    #[test]
    fn a_followed_workspace_never_gives_way() {
        let log = WorkspaceLog::default();
        told(&log, "first", 0);
        let (follower, _) = log.follow(&key("first"), None, 0);
        for number in 0..EVENT_WORKSPACES_MAX + 3 {
            told(&log, &number.to_string(), 1 + number as u64);
        }
        assert_eq!(log.lock().len(), EVENT_WORKSPACES_MAX);
        assert_eq!(numbers(&log.tail(&key("first"), (None, 9), 1).0), [0]);
        drop(follower);
    }

    #[test]
    fn states_are_named_and_cursors_are_read_back() {
        let id = SandboxId::random();
        let event = SandboxEvent::new(EventKind::Hibernated, 1, json!({"a": 1}));
        let change = WorkspaceChange::of((id, MachineKind::Sandbox), &event);
        assert_eq!(Value::Object(change.payload), json!({"a": 1, "status": "hibernated"}));
        let place = EventCursor { ring: "00ff00ff00ff".into(), number: 12 };
        assert_eq!(place.to_string().parse(), Ok(place));
        for bad in ["", "-", "12", "00ff00ff00ff-", "00ff00ff00ff-x", "zz-1", "00ff00ff00ff-99999999999999999999"] {
            assert_eq!(bad.parse::<EventCursor>(), Err(()), "{bad}");
        }
    }
}
