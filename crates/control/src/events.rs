//! Recent events of each sandbox, kept in memory, and the followers that wait for new ones.
//! The store adds events after it committed the change that they describe. Only an undone fork
//! ends the log of its children directly.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pandastack_model::{EventKind, SandboxId, SandboxState};
use pandastack_wire_fleet::SandboxView;
use pandastack_wire_public::{Event, rfc3339};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::{
    app::public_boot_mode,
    limits::{EVENT_SANDBOXES_MAX, EVENTS_PER_SANDBOX_MAX},
};

/// One event of one sandbox.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxEvent {
    pub at_ns: u64,
    pub kind: EventKind,
    pub payload: Map<String, Value>,
}

impl SandboxEvent {
    /// Makes an event. A payload that is not an object becomes an empty object.
    pub fn new(kind: EventKind, at_ns: u64, payload: Value) -> Self {
        let payload = match payload {
            Value::Object(payload) => payload,
            _ => Map::new(),
        };
        Self { at_ns, kind, payload }
    }

    /// Renders the event as the API shows it in lists, streams and webhooks.
    pub fn render(self, sandbox: &str) -> Event {
        let Self { at_ns, kind, payload } = self;
        let time = rfc3339(at_ns);
        Event {
            ts: time.clone(),
            time,
            sandbox_id: sandbox.to_owned(),
            kind: kind.as_str().to_owned(),
            metadata: payload.clone(),
            payload,
        }
    }
}

/// A lasting state. A change from one lasting state to another is an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastingState {
    Running,
    Paused,
    Asleep,
    Dead,
}

impl LastingState {
    /// Returns the lasting state, or `None` for a transition.
    pub fn of(state: &SandboxState) -> Option<Self> {
        match state {
            SandboxState::Running => Some(LastingState::Running),
            SandboxState::Paused => Some(LastingState::Paused),
            SandboxState::Asleep => Some(LastingState::Asleep),
            SandboxState::Failed { .. } => Some(LastingState::Dead),
            SandboxState::Creating | SandboxState::FallingAsleep | SandboxState::Waking | SandboxState::Stopping => {
                None
            }
        }
    }

    /// Names the event for a change from `last` to this state, or `None` if nothing changed.
    /// A sandbox that never ran does not die.
    pub fn since(self, last: Option<LastingState>) -> Option<EventKind> {
        match (last, self) {
            (Some(last), now) if last == now => None,
            (None, LastingState::Dead) => None,
            (_, LastingState::Dead) => Some(EventKind::MachineDied),
            (Some(LastingState::Paused), LastingState::Running) => Some(EventKind::Resumed),
            (Some(LastingState::Asleep), LastingState::Running) => Some(EventKind::Woken),
            (_, LastingState::Running) => Some(EventKind::Running),
            (_, LastingState::Paused) => Some(EventKind::Paused),
            (_, LastingState::Asleep) => Some(EventKind::Hibernated),
        }
    }

    /// The name under which a row stores the last announced state.
    pub fn as_str(self) -> &'static str {
        match self {
            LastingState::Running => "running",
            LastingState::Paused => "paused",
            LastingState::Asleep => "asleep",
            LastingState::Dead => "failed",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        let all = [LastingState::Running, LastingState::Paused, LastingState::Asleep, LastingState::Dead];
        all.into_iter().find(|state| state.as_str() == name)
    }
}

/// Source of an event's payload: the boot, or the reason why a machine died.
#[derive(Clone, Copy, Debug)]
pub enum EventDetails<'a> {
    Boot(&'a SandboxView),
    Death { reason: &'a str },
}

/// Returns the events for a change of state, in order.
pub fn state_events(
    now: LastingState,
    last: Option<LastingState>,
    details: EventDetails<'_>,
    at_ns: u64,
) -> Vec<SandboxEvent> {
    let Some(kind) = now.since(last) else { return Vec::new() };
    let payload = match (now, details) {
        // It went on where it was; its last start is no news.
        (LastingState::Running, _) if kind == EventKind::Resumed => json!({}),
        (LastingState::Running, EventDetails::Boot(view)) => booted(view),
        (LastingState::Dead, EventDetails::Death { reason }) => json!({ "reason": reason }),
        (LastingState::Dead, EventDetails::Boot(view)) => match &view.state {
            SandboxState::Failed { reason } => json!({ "reason": reason }),
            _ => json!({}),
        },
        _ => json!({}),
    };
    let mut events = vec![SandboxEvent::new(kind, at_ns, payload)];
    if kind == EventKind::Running {
        // A terminal is a channel of the agent, so it is ready when the agent is.
        events.push(SandboxEvent::new(EventKind::SshReady, at_ns, json!({})));
    }
    events
}

fn booted(view: &SandboxView) -> Value {
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let (boot_ms, prepare_ms) = (millis(view.boot), millis(view.prepared));
    json!({
        "boot_ms": boot_ms,
        "boot_mode": public_boot_mode(view.boot_mode),
        "phases": { "prepare_ms": prepare_ms, "guest_ms": boot_ms.saturating_sub(prepare_ms) },
        "isolation": view.isolation.as_str(),
    })
}

/// The recent events of every sandbox.
#[derive(Default)]
pub struct EventLog {
    rings: Mutex<HashMap<SandboxId, Arc<EventRing>>>,
}

/// The events of one sandbox. A follower keeps it after the sandbox ended, to read the last event.
#[derive(Default)]
struct EventRing {
    kept: Mutex<KeptEvents>,
    /// Number of events so far.
    news: watch::Sender<u64>,
}

#[derive(Default)]
struct KeptEvents {
    events: VecDeque<SandboxEvent>,
    /// Number of events so far.
    count: u64,
    touched_ns: u64,
    ended: bool,
}

impl EventLog {
    /// Adds events in the given order.
    pub fn record(&self, id: SandboxId, events: Vec<SandboxEvent>) {
        let Some(at_ns) = events.last().map(|event| event.at_ns) else { return };
        self.ring(id, at_ns, |kept| events.into_iter().for_each(|event| kept.push(event)));
    }

    /// Returns the last events of a sandbox, oldest first.
    pub fn tail(&self, id: SandboxId, count: usize) -> Vec<SandboxEvent> {
        let Some(ring) = self.lock().get(&id).cloned() else { return Vec::new() };
        let kept = ring.lock();
        kept.events.iter().skip(kept.events.len().saturating_sub(count)).cloned().collect()
    }

    /// Follows a sandbox from its next event.
    pub fn follow(&self, id: SandboxId, at_ns: u64) -> EventFollower {
        let seen = self.ring(id, at_ns, |kept| kept.count);
        let ring = self.lock().get(&id).cloned().unwrap_or_default();
        EventFollower { news: ring.news.subscribe(), ring, seen }
    }

    /// Adds the last event of a sandbox, ends its followers, and forgets the sandbox. A second
    /// call does nothing.
    pub fn end(&self, id: SandboxId, event: SandboxEvent) {
        let Some(ring) = self.lock().remove(&id) else { return };
        let mut kept = ring.lock();
        kept.push(event);
        kept.ended = true;
        ring.news.send_replace(kept.count);
    }

    fn ring<T>(&self, id: SandboxId, at_ns: u64, change: impl FnOnce(&mut KeptEvents) -> T) -> T {
        let ring = {
            let mut rings = self.lock();
            if rings.len() >= EVENT_SANDBOXES_MAX && !rings.contains_key(&id) {
                let oldest = rings.iter().min_by_key(|(_, ring)| ring.lock().touched_ns).map(|(id, _)| *id);
                oldest.map(|oldest| rings.remove(&oldest));
            }
            rings.entry(id).or_default().clone()
        };
        let mut kept = ring.lock();
        kept.touched_ns = at_ns;
        let changed = change(&mut kept);
        ring.news.send_replace(kept.count);
        changed
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<EventRing>>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventRing {
    fn lock(&self) -> MutexGuard<'_, KeptEvents> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptEvents {
    fn push(&mut self, event: SandboxEvent) {
        if self.events.len() >= EVENTS_PER_SANDBOX_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
        self.count += 1;
    }
}

/// A subscription to the events of one sandbox.
pub struct EventFollower {
    ring: Arc<EventRing>,
    news: watch::Receiver<u64>,
    seen: u64,
}

impl EventFollower {
    /// Waits for events and returns them oldest first. A slow follower may miss some. Returns
    /// `None` after the sandbox has ended.
    pub async fn next(&mut self) -> Option<Vec<SandboxEvent>> {
        loop {
            self.news.mark_unchanged();
            let (fresh, ended) = {
                let kept = self.ring.lock();
                let count = usize::try_from(kept.count - self.seen).unwrap_or(usize::MAX);
                let skipped = kept.events.len().saturating_sub(count);
                self.seen = kept.count;
                (kept.events.iter().skip(skipped).cloned().collect::<Vec<_>>(), kept.ended)
            };
            match (fresh.is_empty(), ended) {
                (false, _) => return Some(fresh),
                (true, true) => return None,
                // This follower holds the ring, so its sender never closes.
                (true, false) => drop(self.news.changed().await),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pandastack_model::Tier;

    use super::*;

    fn view(state: SandboxState) -> SandboxView {
        SandboxView {
            id: SandboxId::random(),
            state,
            isolation: Tier::Fake,
            cpus: 1,
            memory_mib: 256,
            disk_mib: 256,
            guest_ip: String::new(),
            boot: Duration::from_millis(5),
            prepared: Duration::from_millis(3),
            boot_mode: "wake",
            idle: Duration::ZERO,
        }
    }

    fn event(kind: EventKind, at_ns: u64) -> SandboxEvent {
        SandboxEvent::new(kind, at_ns, json!({ "at": at_ns }))
    }

    fn kinds(events: &[SandboxEvent]) -> Vec<&'static str> {
        events.iter().map(|event| event.kind.as_str()).collect()
    }

    #[test]
    fn a_change_of_state_is_an_event_and_the_same_state_is_none() {
        use SandboxState::{Asleep, FallingAsleep, Paused, Running, Waking};
        let failed = SandboxState::Failed { reason: "out of memory".into() };
        let (mut last, mut told) = (None, Vec::new());
        for state in [Running, Running, Paused, Paused, Running, FallingAsleep, Asleep, Waking, Running, failed] {
            let Some(now) = LastingState::of(&state) else { continue };
            told.extend(state_events(now, last, EventDetails::Boot(&view(state)), 1));
            last = Some(now);
        }
        let expected = [
            "sandbox.running",
            "sandbox.ssh_ready",
            "sandbox.paused",
            "sandbox.resumed",
            "sandbox.hibernated",
            "sandbox.woken",
            "vm.died",
        ];
        assert_eq!(kinds(&told), expected);
        let woken = &told[5].payload;
        assert_eq!((&woken["boot_mode"], &woken["boot_ms"]), (&json!("wake"), &json!(5)));
        assert_eq!(woken["phases"], json!({"prepare_ms": 3, "guest_ms": 2}));
        assert!(told[3].payload.is_empty(), "it did not start again");
        assert_eq!(told[6].payload["reason"], json!("out of memory"));
        assert_eq!(LastingState::Dead.since(None), None, "one that never came up does not die");
    }

    #[test]
    fn the_announced_word_can_be_read_back() {
        for state in [LastingState::Running, LastingState::Paused, LastingState::Asleep, LastingState::Dead] {
            assert_eq!(LastingState::from_name(state.as_str()), Some(state));
        }
        assert_eq!(LastingState::from_name("creating"), None);
    }

    #[test]
    fn only_the_last_events_are_kept() {
        let (log, id) = (EventLog::default(), SandboxId::random());
        for n in 0..EVENTS_PER_SANDBOX_MAX + 5 {
            log.record(id, vec![event(EventKind::EgressDenied, n as u64)]);
        }
        let kept = log.tail(id, usize::MAX);
        assert_eq!((kept.len(), &kept[0].payload["at"]), (EVENTS_PER_SANDBOX_MAX, &json!(5)));
    }

    #[test]
    fn the_sandbox_that_was_silent_longest_gives_way() {
        let log = EventLog::default();
        let first = SandboxId::random();
        log.record(first, vec![event(EventKind::MachineDied, 0)]);
        for n in 0..EVENT_SANDBOXES_MAX {
            log.record(SandboxId::random(), vec![event(EventKind::MachineDied, 1 + n as u64)]);
        }
        assert_eq!(log.lock().len(), EVENT_SANDBOXES_MAX);
        assert!(log.tail(first, 1).is_empty());
    }

    #[tokio::test]
    async fn a_follower_sees_everything_to_the_end_and_nothing_from_before() {
        let (log, id) = (EventLog::default(), SandboxId::random());
        log.record(id, vec![event(EventKind::MachineDied, 1)]);
        let mut follower = log.follow(id, 2);
        log.record(id, vec![event(EventKind::EgressDenied, 3)]);
        log.record(SandboxId::random(), vec![event(EventKind::MachineDied, 3)]);
        assert_eq!(kinds(&follower.next().await.unwrap()), ["egress.denied"]);
        let waits = tokio::time::timeout(Duration::from_millis(20), follower.next()).await;
        assert!(waits.is_err());
        log.end(id, event(EventKind::Deleted, 4));
        log.end(id, event(EventKind::Deleted, 5));
        let last = follower.next().await.unwrap();
        assert_eq!((kinds(&last), &last[0].payload["at"]), (vec!["sandbox.deleted"], &json!(4)));
        assert_eq!(follower.next().await, None);
        assert!(log.tail(id, 9).is_empty());
    }
}
