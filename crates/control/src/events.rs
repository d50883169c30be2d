//! What happened to sandboxes lately: the last events of each, in memory. Who needs more subscribes to the host.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard},
};

use pandastack_model::{SandboxId, SandboxState};
use pandastack_wire_fleet::SandboxView;
use serde_json::{Map, Value, json};

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
    rings: Mutex<HashMap<SandboxId, Ring>>,
}

#[derive(Default)]
struct Ring {
    events: VecDeque<Happening>,
    /// The last state that lasts, so that the same news twice is one event.
    last: Option<Lasting>,
    touched_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lasting {
    Running,
    Paused,
    Asleep,
}

impl EventLog {
    /// Adds an event.
    pub fn record(&self, id: SandboxId, at_ns: u64, kind: &'static str, payload: Value) {
        let payload = match payload {
            Value::Object(payload) => payload,
            _ => Map::new(),
        };
        self.ring(id, at_ns, |ring| ring.push(Happening { at_ns, kind, payload }));
    }

    /// Adds the event that a new state stands for, if it is news.
    pub fn state(&self, view: &SandboxView, at_ns: u64) {
        let Some(now) = lasting(&view.state) else { return };
        self.ring(view.id, at_ns, |ring| {
            let kind = match (ring.last.replace(now), now) {
                (Some(last), now) if last == now => return,
                (Some(Lasting::Paused), Lasting::Running) => "sandbox.resumed",
                (Some(Lasting::Asleep), Lasting::Running) => "sandbox.woken",
                (_, Lasting::Running) => "sandbox.running",
                (_, Lasting::Paused) => "sandbox.paused",
                (_, Lasting::Asleep) => "sandbox.hibernated",
            };
            let boot_ms = u64::try_from(view.boot.as_millis()).unwrap_or(u64::MAX);
            let payload = match now {
                Lasting::Running => json!({"boot_ms": boot_ms, "boot_mode": public_boot_mode(view.boot_mode)}),
                Lasting::Paused | Lasting::Asleep => json!({}),
            };
            ring.push(Happening { at_ns, kind, payload: payload.as_object().cloned().unwrap_or_default() });
        });
    }

    /// Takes a state as known, without an event.
    pub fn known(&self, id: SandboxId, state: &SandboxState, at_ns: u64) {
        if let Some(now) = lasting(state) {
            self.ring(id, at_ns, |ring| ring.last = Some(now));
        }
    }

    /// Gives the last events of a sandbox, oldest first.
    pub fn tail(&self, id: SandboxId, count: usize) -> Vec<Happening> {
        let rings = self.lock();
        let Some(ring) = rings.get(&id) else { return Vec::new() };
        ring.events.iter().skip(ring.events.len().saturating_sub(count)).cloned().collect()
    }

    /// Forgets a sandbox.
    pub fn forget(&self, id: SandboxId) {
        self.lock().remove(&id);
    }

    fn ring(&self, id: SandboxId, at_ns: u64, change: impl FnOnce(&mut Ring)) {
        let mut rings = self.lock();
        if rings.len() >= EVENT_SANDBOXES_MAX && !rings.contains_key(&id) {
            let oldest = rings.iter().min_by_key(|(_, ring)| ring.touched_ns).map(|(id, _)| *id);
            oldest.map(|oldest| rings.remove(&oldest));
        }
        let ring = rings.entry(id).or_default();
        ring.touched_ns = at_ns;
        change(ring);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Ring>> {
        self.rings.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Ring {
    fn push(&mut self, event: Happening) {
        if self.events.len() >= EVENTS_PER_SANDBOX_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}

fn lasting(state: &SandboxState) -> Option<Lasting> {
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
            boot_mode: "wake",
            idle: Duration::ZERO,
        }
    }

    #[test]
    fn states_become_events_once() {
        use SandboxState::{Asleep, FallingAsleep, Paused, Running, Waking};
        let (log, id) = (EventLog::default(), SandboxId::random());
        for state in [Running, Running, Paused, Paused, Running, FallingAsleep, Asleep, Waking, Running] {
            log.state(&view(id, state), 1);
        }
        let kinds: Vec<_> = log.tail(id, 100).into_iter().map(|event| event.kind).collect();
        let expected = ["sandbox.running", "sandbox.paused", "sandbox.resumed", "sandbox.hibernated", "sandbox.woken"];
        assert_eq!(kinds, expected);
        assert_eq!(log.tail(id, 1)[0].payload["boot_mode"], "wake");
    }

    #[test]
    fn a_known_state_is_no_news() {
        let (log, id) = (EventLog::default(), SandboxId::random());
        log.known(id, &SandboxState::Asleep, 1);
        log.state(&view(id, SandboxState::Running), 2);
        assert_eq!(log.tail(id, 9)[0].kind, "sandbox.woken");
        log.forget(id);
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
}
