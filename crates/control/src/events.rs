//! What happened to sandboxes lately: the last events of each, in memory, and whoever waits for the next.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pandastack_model::{SandboxId, SandboxState};
use pandastack_wire_fleet::SandboxView;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::{
    app::public_boot_mode,
    limits::{EVENT_SANDBOXES_MAX, EVENTS_PER_SANDBOX_MAX},
};

/// One event of one sandbox.
#[derive(Clone, Debug, PartialEq)]
pub struct Happening {
    pub at_ns: u64,
    pub kind: &'static str,
    pub payload: Map<String, Value>,
}

/// The events of every sandbox.
#[derive(Default)]
pub struct EventLog {
    rings: Mutex<HashMap<SandboxId, Arc<Ring>>>,
}

/// The events of one sandbox. Who follows holds it beyond the sandbox's end, for the last event.
#[derive(Default)]
struct Ring {
    kept: Mutex<Kept>,
    /// How many events there have been.
    news: watch::Sender<u64>,
}

#[derive(Default)]
struct Kept {
    events: VecDeque<Happening>,
    /// How many events there have been.
    count: u64,
    /// The last state that lasts, so that the same news twice is one event.
    last: Option<Lasting>,
    touched_ns: u64,
    ended: bool,
}

/// A state that lasts. Between two of them is an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    Running,
    Paused,
    Asleep,
}

impl Lasting {
    /// Gives the state that lasts, if this one does.
    pub fn of(state: &SandboxState) -> Option<Self> {
        match state {
            SandboxState::Running => Some(Lasting::Running),
            SandboxState::Paused => Some(Lasting::Paused),
            SandboxState::Asleep => Some(Lasting::Asleep),
            SandboxState::Creating
            | SandboxState::FallingAsleep
            | SandboxState::Waking
            | SandboxState::Stopping
            | SandboxState::Failed { .. } => None,
        }
    }

    /// Names the event between two states; none if they are the same.
    pub fn since(self, last: Option<Lasting>) -> Option<&'static str> {
        match (last, self) {
            (Some(last), now) if last == now => None,
            (Some(Lasting::Paused), Lasting::Running) => Some("sandbox.resumed"),
            (Some(Lasting::Asleep), Lasting::Running) => Some("sandbox.woken"),
            (_, Lasting::Running) => Some("sandbox.running"),
            (_, Lasting::Paused) => Some("sandbox.paused"),
            (_, Lasting::Asleep) => Some("sandbox.hibernated"),
        }
    }

    /// Gives what the event tells besides its name.
    pub fn payload(self, boot_ms: u64, boot_mode: &str) -> Value {
        match self {
            Lasting::Running => json!({"boot_ms": boot_ms, "boot_mode": public_boot_mode(boot_mode)}),
            Lasting::Paused | Lasting::Asleep => json!({}),
        }
    }
}

impl EventLog {
    /// Adds an event.
    pub fn record(&self, id: SandboxId, at_ns: u64, kind: &'static str, payload: Value) {
        self.ring(id, at_ns, |kept| kept.push(Happening { at_ns, kind, payload: object(payload) }));
    }

    /// Adds the event that a new state stands for, if it is news, and gives its kind.
    pub fn state(&self, view: &SandboxView, at_ns: u64) -> Option<&'static str> {
        let now = Lasting::of(&view.state)?;
        self.ring(view.id, at_ns, |kept| {
            let kind = now.since(kept.last.replace(now))?;
            let payload = match now {
                Lasting::Running => booted(view),
                Lasting::Paused | Lasting::Asleep => json!({}),
            };
            kept.push(Happening { at_ns, kind, payload: object(payload) });
            if kind == "sandbox.running" {
                // A terminal is a channel of the agent like any other: ready with it.
                kept.push(Happening { at_ns, kind: "sandbox.ssh_ready", payload: Map::new() });
            }
            Some(kind)
        })
    }

    /// Takes a state as known, without an event.
    pub fn known(&self, id: SandboxId, state: &SandboxState, at_ns: u64) {
        if let Some(now) = Lasting::of(state) {
            self.ring(id, at_ns, |kept| kept.last = Some(now));
        }
    }

    /// Gives the last events of a sandbox, oldest first.
    pub fn tail(&self, id: SandboxId, count: usize) -> Vec<Happening> {
        let Some(ring) = self.lock().get(&id).cloned() else { return Vec::new() };
        let kept = ring.lock();
        kept.events.iter().skip(kept.events.len().saturating_sub(count)).cloned().collect()
    }

    /// Follows a sandbox from its next event on.
    pub fn follow(&self, id: SandboxId, at_ns: u64) -> Follower {
        let seen = self.ring(id, at_ns, |kept| kept.count);
        let ring = self.lock().get(&id).cloned().unwrap_or_default();
        Follower { news: ring.news.subscribe(), ring, seen }
    }

    /// Tells the end of a sandbox to who follows it, and forgets it. Told twice, it is told once.
    pub fn end(&self, id: SandboxId, at_ns: u64, reason: &'static str) {
        let Some(ring) = self.lock().remove(&id) else { return };
        let mut kept = ring.lock();
        kept.push(Happening { at_ns, kind: "sandbox.deleted", payload: object(json!({ "reason": reason })) });
        kept.ended = true;
        ring.news.send_replace(kept.count);
    }

    fn ring<T>(&self, id: SandboxId, at_ns: u64, change: impl FnOnce(&mut Kept) -> T) -> T {
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

    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<Ring>>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn push(&mut self, event: Happening) {
        if self.events.len() >= EVENTS_PER_SANDBOX_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
        self.count += 1;
    }
}

/// Somebody who follows a sandbox.
pub struct Follower {
    ring: Arc<Ring>,
    news: watch::Receiver<u64>,
    seen: u64,
}

impl Follower {
    /// Waits for events, oldest first; who is slow may miss some. `None` after the sandbox's end.
    pub async fn next(&mut self) -> Option<Vec<Happening>> {
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
                // The ring is ours to hold, so that its sender never closes.
                (true, false) => drop(self.news.changed().await),
            }
        }
    }
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

fn object(payload: Value) -> Map<String, Value> {
    match payload {
        Value::Object(payload) => payload,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pandastack_model::Tier;

    use super::*;

    fn view(id: SandboxId, state: SandboxState) -> SandboxView {
        SandboxView {
            id,
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

    fn kinds(events: &[Happening]) -> Vec<&'static str> {
        events.iter().map(|event| event.kind).collect()
    }

    #[test]
    fn states_become_events_once() {
        use SandboxState::{Asleep, FallingAsleep, Paused, Running, Waking};
        let (log, id) = (EventLog::default(), SandboxId::random());
        for state in [Running, Running, Paused, Paused, Running, FallingAsleep, Asleep, Waking, Running] {
            log.state(&view(id, state), 1);
        }
        let expected = [
            "sandbox.running",
            "sandbox.ssh_ready",
            "sandbox.paused",
            "sandbox.resumed",
            "sandbox.hibernated",
            "sandbox.woken",
        ];
        assert_eq!(kinds(&log.tail(id, 100)), expected);
        let payload = &log.tail(id, 1)[0].payload;
        assert_eq!((&payload["boot_mode"], &payload["boot_ms"]), (&json!("wake"), &json!(5)));
        assert_eq!(payload["phases"], json!({"prepare_ms": 3, "guest_ms": 2}));
    }

    #[test]
    fn a_known_state_is_no_news() {
        let (log, id) = (EventLog::default(), SandboxId::random());
        log.known(id, &SandboxState::Asleep, 1);
        assert_eq!(log.state(&view(id, SandboxState::Running), 2), Some("sandbox.woken"));
        assert_eq!(log.state(&view(id, SandboxState::Running), 2), None);
        assert_eq!(log.tail(id, 9)[0].kind, "sandbox.woken");
        log.end(id, 3, "request");
        assert!(log.tail(id, 9).is_empty());
    }

    #[test]
    fn only_the_last_events_are_kept() {
        let (log, id) = (EventLog::default(), SandboxId::random());
        for n in 0..EVENTS_PER_SANDBOX_MAX + 5 {
            log.record(id, n as u64, "egress.denied", json!({"target": n}));
        }
        let kept = log.tail(id, usize::MAX);
        assert_eq!((kept.len(), &kept[0].payload["target"]), (EVENTS_PER_SANDBOX_MAX, &json!(5)));
    }

    #[test]
    fn the_sandbox_that_was_silent_longest_gives_way() {
        let log = EventLog::default();
        let first = SandboxId::random();
        log.record(first, 0, "vm.died", json!({}));
        for n in 0..EVENT_SANDBOXES_MAX {
            log.record(SandboxId::random(), 1 + n as u64, "vm.died", json!({}));
        }
        assert_eq!(log.lock().len(), EVENT_SANDBOXES_MAX);
        assert!(log.tail(first, 1).is_empty());
    }

    #[tokio::test]
    async fn a_follower_sees_everything_to_the_end_and_nothing_from_before() {
        let (log, id) = (EventLog::default(), SandboxId::random());
        log.record(id, 1, "vm.died", json!({}));
        let mut follower = log.follow(id, 2);
        log.record(id, 3, "egress.denied", json!({}));
        log.record(SandboxId::random(), 3, "vm.died", json!({}));
        assert_eq!(kinds(&follower.next().await.unwrap()), ["egress.denied"]);
        let waits = tokio::time::timeout(Duration::from_millis(20), follower.next()).await;
        assert!(waits.is_err());
        log.end(id, 4, "request");
        log.end(id, 5, "idleness");
        let last = follower.next().await.unwrap();
        assert_eq!((kinds(&last), &last[0].payload["reason"]), (vec!["sandbox.deleted"], &json!("request")));
        assert_eq!(follower.next().await, None);
    }
}
