//! Owns one slot's egress list: what is applied, which addresses its names stand for, and every change of the slot's rules.
//! The relay asks here before it answers; whoever owns the slot changes the list here. Never parses a message, never decides
//! by itself what is allowed.
//!
//! Rules, marks and sets work together so that every change is one transaction and nothing must be looked up in the kernel:
//! - A list has a *mark*, a hash of its rules. Connections that it let through carry the mark; the rules of another list
//!   look at them anew, and cut those they would not have let through.
//! - Addresses of names are in a set, each with the mark of the list whose names led there, so that another list never sees
//!   them and a restarted host still finds them.

use std::{
    collections::BTreeMap,
    io,
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use pandastack_kit::Scope;
use pandastack_model::{Egress, EgressRule};
use pandastack_sys::netns::Netns;
use tokio::sync::Semaphore;

use super::{
    NetError,
    cidr::Cidr,
    command::{CommandError, nft},
    denials::{Reporter, Watch},
    filter::Found,
    limits::NAMED_MAX,
    listed::{Answers, Listed, add_named},
    names::Uplink,
    policy::{Exceptions, Wall, slot_rules},
};

/// How long addresses of names stay open, whatever the TTL of an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedFor {
    pub floor: Duration,
    pub ceiling: Duration,
}

impl NamedFor {
    /// Gives how long an address stays open after an answer with this TTL.
    fn bounded(self, ttl: Duration) -> Duration {
        ttl.max(self.floor).min(self.ceiling)
    }

    /// What is added when an address is written, so that the same answer a moment later finds it still open long enough.
    fn slack(self) -> Duration {
        self.floor / 2
    }
}

/// A slot's gate.
#[derive(Debug)]
pub struct Gate {
    netns: Arc<Netns>,
    uplink: Uplink,
    exceptions: Arc<Exceptions>,
    named_for: NamedFor,
    reporter: Arc<Reporter>,
    scope: Scope,
    state: Mutex<State>,
    /// Whoever holds the permit is the only one to change the slot's rules.
    turn: Semaphore,
    /// Runs from the first restriction on.
    watch: Mutex<Option<Watch>>,
}

/// What a gate is made of.
pub struct GateParts {
    pub netns: Arc<Netns>,
    pub uplink: Uplink,
    pub exceptions: Arc<Exceptions>,
    pub named_for: NamedFor,
    pub reporter: Arc<Reporter>,
    pub scope: Scope,
    pub applied: Applied,
}

/// What is known of the list in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// An earlier process applied it, or a change failed: nothing is answered until a list is applied.
    Unknown,
    As(Egress),
}

#[derive(Debug)]
struct State {
    applied: Applied,
    /// Until when the address of a name is open; the past is kept too, because connections outlive it.
    answers: BTreeMap<(String, Ipv4Addr), Instant>,
    /// Answers that whoever has the turn next writes down for all.
    waiting: Vec<(String, Vec<Found>)>,
}

impl Gate {
    pub fn new(parts: GateParts) -> Gate {
        let GateParts { netns, uplink, exceptions, named_for, reporter, scope, applied } = parts;
        let state = Mutex::new(State { applied, answers: BTreeMap::new(), waiting: Vec::new() });
        let (turn, watch) = (Semaphore::new(1), Mutex::new(None));
        Gate { netns, uplink, exceptions, named_for, reporter, scope, state, turn, watch }
    }

    /// Gives the rules of a slot that nobody has restricted yet.
    pub fn first_rules(uplink: Uplink, exceptions: &Exceptions) -> String {
        slot_rules(&Wall { uplink, exceptions, listed: None })
    }

    /// Tells whether this list is applied.
    pub fn is(&self, egress: &Egress) -> bool {
        self.state().is(egress)
    }

    /// Applies a list. When this fails, the relay answers nothing until a later
    /// attempt succeeds.
    pub async fn set(&self, egress: &Egress) -> Result<(), NetError> {
        let _turn = self.turn.acquire().await.map_err(|_| NetError::Closed)?;
        if self.is(egress) {
            return Ok(());
        }
        let applied = self.apply(egress).await;
        self.state().applied = if applied.is_ok() { Applied::As(egress.clone()) } else { Applied::Unknown };
        applied
    }

    async fn apply(&self, egress: &Egress) -> Result<(), NetError> {
        let listed = match egress {
            Egress::Open => None,
            Egress::Only(rules) => {
                self.listen().map_err(|cause| NetError::Host { action: "listen for denied packets", cause })?;
                Some(self.state().listed(rules, Instant::now()))
            }
        };
        let rules = slot_rules(&Wall { uplink: self.uplink, exceptions: &self.exceptions, listed });
        let ran = nft(&rules, Some(&self.netns)).await;
        ran.map_err(|cause| NetError::Command { action: "change a slot's egress rules", cause })
    }

    /// Tells whether the guest's questions may pass as they are.
    pub fn is_open(&self) -> bool {
        self.is(&Egress::Open)
    }

    /// Tells whether a name may be resolved.
    pub fn names(&self, name: &str) -> bool {
        self.state().names(name)
    }

    /// Tells whether the host's policy lets guests reach an address at all.
    pub fn permits(&self, address: Ipv4Addr) -> bool {
        self.exceptions.permits(address)
    }

    /// Gives the longest TTL that a guest is told.
    pub fn ttl_max(&self) -> Duration {
        self.named_for.ceiling
    }

    /// Tells of something that the guest was refused.
    pub fn denied(&self, target: String) {
        self.reporter.report(target);
    }

    /// Opens what a name was found to stand for. The guest may be told once this says so: then the addresses are open. It says
    /// no if the list has changed meanwhile and does not have the name any more.
    pub async fn admit(&self, name: &str, found: &[Found]) -> Result<bool, CommandError> {
        if self.state().holds(name, found, self.named_for, Instant::now()) {
            return Ok(true);
        }
        self.state().waiting.push((name.to_owned(), found.to_vec()));
        let Ok(_turn) = self.turn.acquire().await else { return Ok(false) };
        let batch = self.state().batch(self.named_for, Instant::now());
        if let Some(Batch { mark, entries }) = batch {
            let now = Instant::now();
            let left = entries.iter().map(|((_, address), until)| (*address, until.saturating_duration_since(now)));
            nft(&add_named(mark, left), Some(&self.netns)).await?;
            self.state().remember(entries);
        }
        Ok(self.state().opens(name, found, Instant::now()))
    }

    /// Waits for changes under way and ends the watch; later changes are refused.
    pub async fn close(&self) {
        drop(self.turn.acquire().await);
        self.turn.close();
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(watch) = watch {
            watch.stop().await;
        }
    }

    fn listen(&self) -> io::Result<()> {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        if watch.is_none() {
            *watch = Some(Watch::start(&self.netns, self.reporter.clone(), &self.scope)?);
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change under this lock is a single step, so a panic elsewhere cannot have left it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one run of `nft` opens.
struct Batch {
    mark: u32,
    entries: BTreeMap<(String, Ipv4Addr), Instant>,
}

impl State {
    fn is(&self, egress: &Egress) -> bool {
        matches!(&self.applied, Applied::As(applied) if applied == egress)
    }

    fn names(&self, name: &str) -> bool {
        match &self.applied {
            Applied::Unknown => false,
            Applied::As(egress) => egress.names(name),
        }
    }

    /// Tells whether a name is on the list and its addresses are open for as long as the answer says.
    fn holds(&self, name: &str, found: &[Found], named_for: NamedFor, now: Instant) -> bool {
        self.open_until(name, found, |found| now + named_for.bounded(found.ttl))
    }

    /// Tells whether a name is on the list and its addresses are open now.
    fn opens(&self, name: &str, found: &[Found], now: Instant) -> bool {
        self.open_until(name, found, |_| now)
    }

    fn open_until(&self, name: &str, found: &[Found], wanted: impl Fn(&Found) -> Instant) -> bool {
        let until = |found: &Found| self.answers.get(&(name.to_owned(), found.address));
        let open = |found: &Found| until(found).is_some_and(|until| *until >= wanted(found));
        self.names(name) && (self.is(&Egress::Open) || found.iter().all(open))
    }

    /// Takes what waits and is still wanted.
    fn batch(&mut self, named_for: NamedFor, now: Instant) -> Option<Batch> {
        let waiting = std::mem::take(&mut self.waiting);
        let Applied::As(Egress::Only(rules)) = &self.applied else { return None };
        let mut entries = BTreeMap::new();
        for (name, found) in waiting {
            if self.names(&name) && !self.holds(&name, &found, named_for, now) {
                let until = |found: &Found| now + named_for.bounded(found.ttl) + named_for.slack();
                entries.extend(found.iter().map(|found| ((name.clone(), found.address), until(found))));
            }
        }
        (!entries.is_empty()).then(|| Batch { mark: mark_of(rules), entries })
    }

    fn remember(&mut self, entries: BTreeMap<(String, Ipv4Addr), Instant>) {
        self.answers.extend(entries);
        while self.answers.len() > NAMED_MAX {
            let oldest = self.answers.iter().min_by_key(|(_, until)| **until).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.answers.remove(&key));
        }
    }

    /// Gives what the rules of a list are made of.
    fn listed(&self, rules: &[EgressRule], now: Instant) -> Listed {
        let nets = rules.iter().filter_map(|rule| match rule {
            EgressRule::Net { address, bits } => Some(Cidr::new(*address, *bits)),
            EgressRule::Host(_) | EgressRule::Below(_) => None,
        });
        let answers = match self.applied {
            // What an earlier process wrote for this list is still right, and for another list it is out of sight.
            Applied::Unknown => None,
            Applied::As(_) => Some(self.answers_for(rules, now)),
        };
        Listed { mark: mark_of(rules), nets: nets.collect(), answers }
    }

    fn answers_for(&self, rules: &[EgressRule], now: Instant) -> Answers {
        let mut answers = Answers::default();
        for ((name, address), until) in &self.answers {
            if !rules.iter().any(|rule| rule.names(name)) {
                continue;
            }
            answers.kept.insert(*address);
            let left = until.saturating_duration_since(now);
            if !left.is_zero() {
                let longest = answers.named.entry(*address).or_default();
                *longest = left.max(*longest);
            }
        }
        answers
    }
}

/// Gives a list's mark: the same for the same rules in any order, in every process, and never zero, which is no mark.
fn mark_of(rules: &[EgressRule]) -> u32 {
    let mut lines: Vec<String> = rules.iter().map(|rule| format!("{rule}\n")).collect();
    lines.sort_unstable();
    lines.dedup();
    let digest = blake3::hash(lines.concat().as_bytes());
    let [a, b, c, d, ..] = *digest.as_bytes();
    u32::from_be_bytes([a, b, c, d]).max(1)
}

#[cfg(test)]
#[path = "egress_tests.rs"]
mod tests;
