//! Owns one slot's egress list: what is applied, which addresses its names stand for, and every
//! change of the slot's rules. The relay asks here before it answers; whoever owns the slot changes
//! the list here. Never parses a message, never decides by itself what is allowed.
//!
//! Rules, marks and sets work together so that every change is one transaction and nothing must be
//! looked up in the kernel:
//! - A list has a *mark*, a hash of its rules. Connections that it let through carry the mark; the
//!   rules of another list look at them anew, and cut those they would not have let through.
//! - Addresses of names are in a set, each with the mark of the list whose names led there, so that
//!   another list never sees them and a restarted host still finds them.
//!
//! Every write of addresses costs a process, and a guest decides how many names it asks for. So one
//! write opens what all waiting answers need, a slot has a rate of writes (`pace`), and the
//! instance has a number of writes at a time.

use std::{
    collections::BTreeMap,
    io,
    net::Ipv4Addr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use pandastack_kit::Scope;
use pandastack_model::{Egress, EgressRule};
use pandastack_sys::netns::Netns;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use super::{
    NetError,
    cidr::Cidr,
    command::{CommandError, nft},
    denials::{Reporter, Watch},
    filter::Found,
    limits::{NAMED_MAX, NAMED_WAITING_MAX, NAMED_WITHIN},
    listed::{Answers, Listed, add_named},
    names::Uplink,
    pace::Pace,
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

    /// What is added when an address is written, so that the same answer a moment later finds it
    /// still open long enough.
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
    /// Whoever holds the permit waits to write for all answers that wait.
    pen: Semaphore,
    pace: Mutex<Pace>,
    /// Shared by all slots: bounds the writes under way.
    writers: Arc<Semaphore>,
    updates: AtomicU64,
    refused: AtomicU64,
    /// Runs from the first restriction on.
    watch: Mutex<Option<Watch>>,
}

/// What the names of one slot's list have cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameCounts {
    /// Writes of addresses to the kernel.
    pub updates: u64,
    /// Answers that were withheld because writes were too many, too slow, or had no room left.
    pub refused: u64,
}

/// What became of an answer for a restricted guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Its addresses are open; the guest may be told.
    Open,
    /// The list has changed meanwhile and does not have the name any more.
    Unlisted,
    /// Its addresses could not be opened.
    Refused,
}

/// What a gate is made of.
pub struct GateParts {
    pub netns: Arc<Netns>,
    pub uplink: Uplink,
    pub exceptions: Arc<Exceptions>,
    pub named_for: NamedFor,
    pub reporter: Arc<Reporter>,
    pub scope: Scope,
    pub writers: Arc<Semaphore>,
    pub applied: Applied,
}

/// What is known of the list in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// An earlier process applied it, or a change failed: nothing is answered until a list is
    /// applied.
    Unknown,
    As(Egress),
}

#[derive(Debug)]
struct State {
    applied: Applied,
    /// Until when the address of a name is open; the past is kept too, because connections outlive
    /// it.
    answers: BTreeMap<(String, Ipv4Addr), Instant>,
    /// Until when the kernel has an address open for the applied list, whichever name led there.
    open: BTreeMap<Ipv4Addr, Instant>,
    /// Answers that whoever has the turn next writes down for all.
    waiting: Vec<(String, Vec<Found>)>,
}

impl Gate {
    pub fn new(parts: GateParts) -> Gate {
        let GateParts { netns, uplink, exceptions, named_for, reporter, scope, writers, applied } = parts;
        Gate {
            netns,
            uplink,
            exceptions,
            named_for,
            reporter,
            scope,
            state: Mutex::new(State::new(applied)),
            turn: Semaphore::new(1),
            pen: Semaphore::new(1),
            pace: Mutex::default(),
            writers,
            updates: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            watch: Mutex::new(None),
        }
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
        let (applied, open, outcome) = match applied {
            Ok(open) => (Applied::As(egress.clone()), open, Ok(())),
            Err(error) => (Applied::Unknown, BTreeMap::new(), Err(error)),
        };
        let mut state = self.state();
        (state.applied, state.open) = (applied, open);
        outcome
    }

    /// Writes the rules of a list, and gives which addresses of names are open then.
    async fn apply(&self, egress: &Egress) -> Result<BTreeMap<Ipv4Addr, Instant>, NetError> {
        let now = Instant::now();
        let listed = match egress {
            Egress::Open => None,
            Egress::Only(rules) => {
                self.listen().map_err(|cause| NetError::Host { action: "listen for denied packets", cause })?;
                Some(self.state().listed(rules, now))
            }
        };
        let wall = Wall { uplink: self.uplink, exceptions: &self.exceptions, listed };
        let ran = nft(&slot_rules(&wall), Some(&self.netns)).await;
        ran.map_err(|cause| NetError::Command { action: "change a slot's egress rules", cause })?;
        let named = wall.listed.and_then(|listed| listed.answers).unwrap_or_default().named;
        Ok(named.into_iter().map(|(address, left)| (address, now + left)).collect())
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

    /// Opens what a name was found to stand for. Costs nothing if that is open already. Otherwise
    /// it waits for its turn, within bounds, and shares one write with all other answers that wait.
    pub async fn admit(&self, name: &str, found: &[Found]) -> Result<Admission, CommandError> {
        if self.state().claim(name, found, self.named_for, Instant::now()) {
            return Ok(Admission::Open);
        }
        if !self.state().wait(name, found) {
            return Ok(self.refuse());
        }
        let Ok(turn) = timeout(NAMED_WITHIN, self.turn_to_write(name, found)).await else { return Ok(self.refuse()) };
        if turn.is_some() {
            self.write().await?;
        }
        let (mut state, now) = (self.state(), Instant::now());
        if state.claim(name, found, self.named_for, now) || state.opens(name, found, now) {
            return Ok(Admission::Open);
        }
        let is_named = state.names(name);
        drop(state);
        Ok(if is_named { self.refuse() } else { Admission::Unlisted })
    }

    /// Waits for the right to write. Gives none if there is nothing left to write.
    async fn turn_to_write(&self, name: &str, found: &[Found]) -> Option<[SemaphorePermit<'_>; 3]> {
        let pen = self.pen.acquire().await.ok()?;
        let written = self.state().claim(name, found, self.named_for, Instant::now());
        if written || self.state().waiting.is_empty() {
            return None;
        }
        let pause = self.pace.lock().unwrap_or_else(PoisonError::into_inner).next(Instant::now());
        tokio::time::sleep(pause).await;
        // The slot's own turn last: a change of the list never waits for the pace of names.
        let writer = self.writers.acquire().await.ok()?;
        let turn = self.turn.acquire().await.ok()?;
        Some([pen, writer, turn])
    }

    /// Writes what all waiting answers need. Only for whoever has the turn.
    async fn write(&self) -> Result<(), CommandError> {
        let now = Instant::now();
        let Some(batch) = self.state().batch(self.named_for, now) else { return Ok(()) };
        if !batch.addresses.is_empty() {
            let left = batch.addresses.iter().map(|(address, until)| (*address, until.saturating_duration_since(now)));
            self.updates.fetch_add(1, Ordering::Relaxed);
            nft(&add_named(batch.mark, left), Some(&self.netns)).await?;
        }
        self.state().remember(batch, Instant::now());
        Ok(())
    }

    fn refuse(&self) -> Admission {
        self.refused.fetch_add(1, Ordering::Relaxed);
        Admission::Refused
    }

    /// Counts what names have cost.
    pub fn name_counts(&self) -> NameCounts {
        NameCounts { updates: self.updates.load(Ordering::Relaxed), refused: self.refused.load(Ordering::Relaxed) }
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
        // Every change under this lock is a single step, so a panic elsewhere cannot have left it
        // half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one run of `nft` opens.
struct Batch {
    mark: u32,
    /// What the kernel must be told, and until when it is open.
    addresses: BTreeMap<Ipv4Addr, Instant>,
    /// Which names led there.
    entries: BTreeMap<(String, Ipv4Addr), Instant>,
}

impl State {
    fn new(applied: Applied) -> State {
        State { applied, answers: BTreeMap::new(), open: BTreeMap::new(), waiting: Vec::new() }
    }

    fn is(&self, egress: &Egress) -> bool {
        matches!(&self.applied, Applied::As(applied) if applied == egress)
    }

    fn names(&self, name: &str) -> bool {
        match &self.applied {
            Applied::Unknown => false,
            Applied::As(egress) => egress.names(name),
        }
    }

    /// Puts an answer among those that wait for a write; not if there are too many.
    fn wait(&mut self, name: &str, found: &[Found]) -> bool {
        let has_room = self.waiting.len() < NAMED_WAITING_MAX;
        if has_room {
            self.waiting.push((name.to_owned(), found.to_vec()));
        }
        has_room
    }

    /// Remembers that a name leads to addresses, if they are open for as long as the answer says.
    fn claim(&mut self, name: &str, found: &[Found], named_for: NamedFor, now: Instant) -> bool {
        let held = self.holds(name, found, named_for, now);
        if held && !self.is(&Egress::Open) {
            for found in found {
                let until = now + named_for.bounded(found.ttl);
                let known = self.answers.entry((name.to_owned(), found.address)).or_insert(until);
                *known = until.max(*known);
            }
            self.forget_oldest();
        }
        held
    }

    /// Tells whether a name is on the list and its addresses are open for as long as the answer
    /// says.
    fn holds(&self, name: &str, found: &[Found], named_for: NamedFor, now: Instant) -> bool {
        self.open_until(name, found, |found| now + named_for.bounded(found.ttl))
    }

    /// Tells whether a name is on the list and its addresses are open now.
    fn opens(&self, name: &str, found: &[Found], now: Instant) -> bool {
        self.open_until(name, found, |_| now)
    }

    fn open_until(&self, name: &str, found: &[Found], wanted: impl Fn(&Found) -> Instant) -> bool {
        let open = |found: &Found| self.open.get(&found.address).is_some_and(|until| *until >= wanted(found));
        self.names(name) && (self.is(&Egress::Open) || found.iter().all(open))
    }

    /// Takes what waits and is still wanted. Addresses beyond the room are left out, and so are
    /// their answers.
    fn batch(&mut self, named_for: NamedFor, now: Instant) -> Option<Batch> {
        let waiting = std::mem::take(&mut self.waiting);
        self.open.retain(|_, until| *until > now);
        let Applied::As(Egress::Only(rules)) = &self.applied else { return None };
        let mut batch = Batch { mark: mark_of(rules), addresses: BTreeMap::new(), entries: BTreeMap::new() };
        let mut room = NAMED_MAX.saturating_sub(self.open.len());
        for (name, found) in waiting {
            if !self.names(&name) || self.holds(&name, &found, named_for, now) {
                continue;
            }
            for found in found {
                let wanted = now + named_for.bounded(found.ttl);
                let until = wanted + named_for.slack();
                let open = self.open.get(&found.address);
                if open.is_none() && !batch.addresses.contains_key(&found.address) {
                    if room == 0 {
                        continue;
                    }
                    room -= 1;
                }
                if open.is_none_or(|open| *open < wanted) {
                    let longest = batch.addresses.entry(found.address).or_insert(until);
                    *longest = until.max(*longest);
                }
                batch.entries.insert((name.clone(), found.address), until);
            }
        }
        (!batch.entries.is_empty()).then_some(batch)
    }

    fn remember(&mut self, batch: Batch, now: Instant) {
        self.open.retain(|_, until| *until > now);
        self.open.extend(batch.addresses);
        self.answers.extend(batch.entries);
        self.forget_oldest();
    }

    /// Keeps the memory of answers within its bound. The addresses stay open for their time.
    fn forget_oldest(&mut self) {
        let Some(last) = self.answers.len().checked_sub(NAMED_MAX + 1) else { return };
        let mut times: Vec<Instant> = self.answers.values().copied().collect();
        let (_, &mut newest_to_go, _) = times.select_nth_unstable(last);
        let mut to_go = last + 1;
        self.answers.retain(|_, until| {
            let goes = to_go > 0 && *until <= newest_to_go;
            to_go -= usize::from(goes);
            !goes
        });
    }

    /// Gives what the rules of a list are made of.
    fn listed(&self, rules: &[EgressRule], now: Instant) -> Listed {
        let nets = rules.iter().filter_map(|rule| match rule {
            EgressRule::Net { address, bits } => Some(Cidr::new(*address, *bits)),
            EgressRule::Host(_) | EgressRule::Below(_) => None,
        });
        let answers = match self.applied {
            // What an earlier process wrote for this list is still right, and for another list it
            // is out of sight.
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

/// Gives a list's mark: the same for the same rules in any order, in every process, and never zero,
/// which is no mark.
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
