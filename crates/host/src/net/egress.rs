//! Owns one slot's egress list: the applied list, the addresses that its names resolved to, and
//! every change of the slot's rules. The relay asks here before it answers, and the slot's owner
//! changes the list here. Never parses a DNS message and never decides what is allowed.

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
    denials::{DenialReporter, DenialWatch},
    filter::ResolvedAddress,
    limits::{NAMED_MAX, NAMED_WAITING_MAX, NAMED_WITHIN},
    listed::{ListedAddresses, ListedTargets, add_named},
    names::Uplink,
    policy::{GatewayAccess, PolicyExceptions, SlotFirewall, gateway_rules, slot_rules},
    token_bucket::TokenBucket,
};

/// How long addresses of names stay open: the bounds for the TTL of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameTtlBounds {
    pub floor: Duration,
    pub ceiling: Duration,
}

impl NameTtlBounds {
    /// Returns how long an address stays open after an answer with this TTL.
    fn bounded(self, ttl: Duration) -> Duration {
        ttl.max(self.floor).min(self.ceiling)
    }

    /// Extra time added when an address is written, so that a repeated answer soon after needs no
    /// new write.
    fn slack(self) -> Duration {
        self.floor / 2
    }
}

/// Applies the egress list of one slot and opens the addresses of its names.
#[derive(Debug)]
pub struct EgressGate {
    netns: Arc<Netns>,
    uplink: Uplink,
    exceptions: Arc<PolicyExceptions>,
    named_for: NameTtlBounds,
    reporter: Arc<DenialReporter>,
    scope: Scope,
    state: Mutex<GateState>,
    /// The permit to change the slot's rules.
    turn: Semaphore,
    /// The permit to write next. Its holder waits for the pace and then writes for all waiting
    /// answers.
    pen: Semaphore,
    pace: Mutex<TokenBucket>,
    /// Shared by all slots: bounds the writes in progress. Each write starts a process, and the
    /// guest decides how many names it asks for.
    writers: Arc<Semaphore>,
    updates: AtomicU64,
    refused: AtomicU64,
    /// Runs from the first restriction on.
    watch: Mutex<Option<DenialWatch>>,
}

/// The cost of the names on one slot's list so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameCounts {
    /// Writes of addresses to the kernel.
    pub updates: u64,
    /// Answers withheld because there were too many writes, they were too slow, or the set was
    /// full.
    pub refused: u64,
}

/// The result of admitting an answer for a restricted guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameAdmission {
    /// The answer's addresses are open, so the guest may receive it.
    Open,
    /// The list changed meanwhile and no longer contains the name.
    Unlisted,
    /// The answer's addresses could not be opened.
    Refused,
}

/// The parts of a gate.
pub struct EgressGateSetup {
    pub netns: Arc<Netns>,
    pub uplink: Uplink,
    pub exceptions: Arc<PolicyExceptions>,
    pub named_for: NameTtlBounds,
    pub reporter: Arc<DenialReporter>,
    pub scope: Scope,
    pub writers: Arc<Semaphore>,
    pub applied: AppliedEgress,
}

/// The list that the kernel has, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppliedEgress {
    /// An earlier process applied the list, or a change failed. The relay answers nothing until a
    /// list is applied.
    Unknown,
    As(Egress),
}

#[derive(Debug)]
struct GateState {
    applied: AppliedEgress,
    /// Written with every list.
    gateway: GatewayAccess,
    /// Until when each address of a name is open. Expired entries stay, because connections outlive
    /// them.
    answers: BTreeMap<(String, Ipv4Addr), Instant>,
    /// Until when the kernel keeps an address open for the applied list, for any name.
    open: BTreeMap<Ipv4Addr, Instant>,
    /// Answers that the next write opens together.
    waiting: Vec<(String, Vec<ResolvedAddress>)>,
}

impl EgressGate {
    pub fn new(parts: EgressGateSetup) -> EgressGate {
        let EgressGateSetup { netns, uplink, exceptions, named_for, reporter, scope, writers, applied } = parts;
        EgressGate {
            netns,
            uplink,
            exceptions,
            named_for,
            reporter,
            scope,
            state: Mutex::new(GateState::new(applied)),
            turn: Semaphore::new(1),
            pen: Semaphore::new(1),
            pace: Mutex::default(),
            writers,
            updates: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            watch: Mutex::new(None),
        }
    }

    /// Returns the rules of a new slot, which has no restriction.
    pub fn first_rules(uplink: Uplink, exceptions: &PolicyExceptions) -> String {
        slot_rules(&SlotFirewall { uplink, exceptions, listed: None, gateway: GatewayAccess::Closed })
    }

    /// Returns whether this list is applied.
    pub fn is(&self, egress: &Egress) -> bool {
        self.state().is(egress)
    }

    /// Applies a list. If this fails, the relay answers nothing until a later call succeeds.
    pub async fn set(&self, egress: &Egress) -> Result<(), NetError> {
        let _turn = self.turn.acquire().await.map_err(|_| NetError::Closed)?;
        if self.is(egress) { Ok(()) } else { self.change(egress).await }
    }

    /// Applies a list as `set` does, and opens the service at the gateway. One write does both.
    pub async fn set_and_open(&self, egress: &Egress) -> Result<(), NetError> {
        let _turn = self.turn.acquire().await.map_err(|_| NetError::Closed)?;
        if !self.is(egress) {
            self.state().gateway = GatewayAccess::Open;
            return self.change(egress).await;
        }
        if self.state().gateway == GatewayAccess::Closed {
            // Only the port: writing the list would forget the names that an earlier process
            // resolved.
            let ran = nft(&gateway_rules(GatewayAccess::Open), Some(&self.netns)).await;
            ran.map_err(|cause| NetError::Command { action: "open a slot's gateway", cause })?;
            self.state().gateway = GatewayAccess::Open;
        }
        Ok(())
    }

    /// Writes a list and remembers the result. The caller must hold the turn.
    async fn change(&self, egress: &Egress) -> Result<(), NetError> {
        let applied = self.apply(egress).await;
        let (applied, open, outcome) = match applied {
            Ok(open) => (AppliedEgress::As(egress.clone()), open, Ok(())),
            Err(error) => (AppliedEgress::Unknown, BTreeMap::new(), Err(error)),
        };
        let mut state = self.state();
        (state.applied, state.open) = (applied, open);
        outcome
    }

    /// Writes the rules of a list. Returns the addresses of names that are open afterwards.
    async fn apply(&self, egress: &Egress) -> Result<BTreeMap<Ipv4Addr, Instant>, NetError> {
        let now = Instant::now();
        let listed = match egress {
            Egress::Open => None,
            Egress::Only(rules) => {
                self.listen().map_err(|cause| NetError::Host { action: "listen for denied packets", cause })?;
                Some(self.state().listed(rules, now))
            }
        };
        let gateway = self.state().gateway;
        let wall = SlotFirewall { uplink: self.uplink, exceptions: &self.exceptions, listed, gateway };
        let ran = nft(&slot_rules(&wall), Some(&self.netns)).await;
        ran.map_err(|cause| NetError::Command { action: "change a slot's egress rules", cause })?;
        let named = wall.listed.and_then(|listed| listed.answers).unwrap_or_default().named;
        Ok(named.into_iter().map(|(address, left)| (address, now + left)).collect())
    }

    /// Returns whether the slot is unrestricted, so that the guest's questions pass unchanged.
    pub fn is_open(&self) -> bool {
        self.is(&Egress::Open)
    }

    /// Returns whether the list allows a name to be resolved.
    pub fn names(&self, name: &str) -> bool {
        self.state().names(name)
    }

    /// Returns whether the host's policy lets guests reach an address.
    pub fn permits(&self, address: Ipv4Addr) -> bool {
        self.exceptions.permits(address)
    }

    /// Returns the longest TTL that a guest receives.
    pub fn ttl_max(&self) -> Duration {
        self.named_for.ceiling
    }

    /// Reports a target that the guest was refused.
    pub fn denied(&self, target: String) {
        self.reporter.report(target);
    }

    /// Opens the addresses of a name. Does no work if they are open already. Otherwise waits a
    /// bounded time for the next write, which all waiting answers share.
    pub async fn admit(&self, name: &str, found: &[ResolvedAddress]) -> Result<NameAdmission, CommandError> {
        if self.state().claim(name, found, self.named_for, Instant::now()) {
            return Ok(NameAdmission::Open);
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
            return Ok(NameAdmission::Open);
        }
        let is_named = state.names(name);
        drop(state);
        Ok(if is_named { self.refuse() } else { NameAdmission::Unlisted })
    }

    /// Waits for the permits to write. Returns `None` if nothing is left to write.
    async fn turn_to_write(&self, name: &str, found: &[ResolvedAddress]) -> Option<[SemaphorePermit<'_>; 3]> {
        let pen = self.pen.acquire().await.ok()?;
        let written = self.state().claim(name, found, self.named_for, Instant::now());
        if written || self.state().waiting.is_empty() {
            return None;
        }
        let pause = self.pace.lock().unwrap_or_else(PoisonError::into_inner).next(Instant::now());
        tokio::time::sleep(pause).await;
        // The slot's own permit comes last, so that a change of the list never waits for the pace.
        let writer = self.writers.acquire().await.ok()?;
        let turn = self.turn.acquire().await.ok()?;
        Some([pen, writer, turn])
    }

    /// Writes the addresses of all waiting answers. The caller must hold the permits.
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

    fn refuse(&self) -> NameAdmission {
        self.refused.fetch_add(1, Ordering::Relaxed);
        NameAdmission::Refused
    }

    /// Returns the cost counters of the names on the list.
    pub fn name_counts(&self) -> NameCounts {
        NameCounts { updates: self.updates.load(Ordering::Relaxed), refused: self.refused.load(Ordering::Relaxed) }
    }

    /// Waits for changes in progress and ends the watch. Refuses later changes.
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
            *watch = Some(DenialWatch::start(&self.netns, self.reporter.clone(), &self.scope)?);
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        // Each change under this lock is one step, so a panic elsewhere cannot leave it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The addresses that one run of `nft` opens.
struct AddressBatch {
    mark: u32,
    /// Addresses to write to the kernel, and until when they are open.
    addresses: BTreeMap<Ipv4Addr, Instant>,
    /// The names that resolved to the addresses, and until when.
    entries: BTreeMap<(String, Ipv4Addr), Instant>,
}

impl GateState {
    fn new(applied: AppliedEgress) -> GateState {
        let gateway = GatewayAccess::Closed;
        GateState { applied, gateway, answers: BTreeMap::new(), open: BTreeMap::new(), waiting: Vec::new() }
    }

    fn is(&self, egress: &Egress) -> bool {
        matches!(&self.applied, AppliedEgress::As(applied) if applied == egress)
    }

    fn names(&self, name: &str) -> bool {
        match &self.applied {
            AppliedEgress::Unknown => false,
            AppliedEgress::As(egress) => egress.names(name),
        }
    }

    /// Queues an answer for the next write. Returns `false` if the queue is full.
    fn wait(&mut self, name: &str, found: &[ResolvedAddress]) -> bool {
        let has_room = self.waiting.len() < NAMED_WAITING_MAX;
        if has_room {
            self.waiting.push((name.to_owned(), found.to_vec()));
        }
        has_room
    }

    /// Records that a name resolves to addresses, if they are open for the whole TTL of the answer.
    fn claim(&mut self, name: &str, found: &[ResolvedAddress], named_for: NameTtlBounds, now: Instant) -> bool {
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

    /// Returns whether a name is on the list and its addresses are open for the whole TTL.
    fn holds(&self, name: &str, found: &[ResolvedAddress], named_for: NameTtlBounds, now: Instant) -> bool {
        self.open_until(name, found, |found| now + named_for.bounded(found.ttl))
    }

    /// Returns whether a name is on the list and its addresses are open now.
    fn opens(&self, name: &str, found: &[ResolvedAddress], now: Instant) -> bool {
        self.open_until(name, found, |_| now)
    }

    fn open_until(&self, name: &str, found: &[ResolvedAddress], wanted: impl Fn(&ResolvedAddress) -> Instant) -> bool {
        let open = |found: &ResolvedAddress| self.open.get(&found.address).is_some_and(|until| *until >= wanted(found));
        self.names(name) && (self.is(&Egress::Open) || found.iter().all(open))
    }

    /// Takes the waiting answers that still need a write. Addresses beyond the limit are left out,
    /// and so are their entries.
    fn batch(&mut self, named_for: NameTtlBounds, now: Instant) -> Option<AddressBatch> {
        let waiting = std::mem::take(&mut self.waiting);
        self.open.retain(|_, until| *until > now);
        let AppliedEgress::As(Egress::Only(rules)) = &self.applied else { return None };
        let mut batch = AddressBatch { mark: mark_of(rules), addresses: BTreeMap::new(), entries: BTreeMap::new() };
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

    fn remember(&mut self, batch: AddressBatch, now: Instant) {
        self.open.retain(|_, until| *until > now);
        self.open.extend(batch.addresses);
        self.answers.extend(batch.entries);
        self.forget_oldest();
    }

    /// Keeps the number of remembered answers within its limit. The addresses stay open.
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

    /// Returns the parts from which the rules of a list are built.
    fn listed(&self, rules: &[EgressRule], now: Instant) -> ListedTargets {
        let nets = rules.iter().filter_map(|rule| match rule {
            EgressRule::Net { address, bits } => Some(Cidr::new(*address, *bits)),
            EgressRule::Host(_) | EgressRule::Below(_) => None,
        });
        let answers = match self.applied {
            // Addresses written by an earlier process are still right for the same list. Another
            // list has another mark and does not match them.
            AppliedEgress::Unknown => None,
            AppliedEgress::As(_) => Some(self.answers_for(rules, now)),
        };
        ListedTargets { mark: mark_of(rules), nets: nets.collect(), answers }
    }

    fn answers_for(&self, rules: &[EgressRule], now: Instant) -> ListedAddresses {
        let mut answers = ListedAddresses::default();
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

/// Returns a list's mark: a hash of its rules in any order, the same in every process. Zero means
/// "no mark".
///
/// Connections that a list allowed carry its mark. The rules of another list check such a
/// connection again and cut it if they would not allow it. Addresses of names are stored with the
/// mark too, so another list never matches them and a restarted host still finds them.
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
