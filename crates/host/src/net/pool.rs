//! Owns the slots of one instance: makes a few ahead, hands them out, and removes them after use.
//! Never decides what a guest may reach (`policy`), and never waits for a guest.
//!
//! ```text
//!           refill, or take on demand          take
//! (nothing) -------------------------> ready --------> taken --give_back--> (nothing)
//!                                        \                \           \          ^
//!                                         `--- close ------'----------- stuck ----'  remove_stray
//! ```

use std::{
    collections::{BTreeSet, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pandastack_kit::Scope;
use pandastack_model::Egress;
use tokio::{
    sync::{Notify, Semaphore, broadcast},
    task::JoinHandle,
};

use super::{
    NetError, NetSettings, block,
    command::nft,
    denials::Denial,
    dns,
    limits::{DENIALS_WAITING, MAKERS_MAX, NAMED_WRITERS_MAX, REFILL_PAUSE, REFILL_SETTLE, SLOTS_MAX},
    names::NetNames,
    policy::{PolicyExceptions, host_rules},
    slot::{NetSlot, SlotContext, destroy},
    sweep::{namespaces, sweep},
};

/// The slots of one instance.
#[derive(Debug)]
pub struct NetPool {
    instance: String,
    site: SlotContext,
    ready_wanted: usize,
    max: usize,
    books: Mutex<SlotTable>,
    /// Notified when a slot may have to be made ahead.
    bell: Notify,
    /// Bounds how many slots are made or removed at once. Holding all permits excludes all others.
    makers: Semaphore,
    refill: Mutex<Option<JoinHandle<()>>>,
}

/// The number of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotCounts {
    pub ready: usize,
    /// All used numbers: slots that are ready, taken, being made, stuck, or of an earlier process
    /// and not yet adopted.
    pub present: usize,
}

#[derive(Debug, Default)]
struct SlotTable {
    ready: VecDeque<NetSlot>,
    /// Numbers of all slots that exist or are being made.
    used: BTreeSet<usize>,
    /// Numbers of slots found at start that can be adopted.
    orphans: BTreeSet<usize>,
    /// Numbers of slots without an owner whose removal failed. They stay used until the audit has
    /// removed the remains, because a new slot must not get the same name.
    stuck: BTreeSet<usize>,
    /// Where the search for a free number starts, so that numbers and addresses are not reused at
    /// once.
    next: usize,
    closed: bool,
}

impl NetPool {
    /// Prepares the host and starts making slots ahead. Leaves slots of an earlier process alone,
    /// so that they can be adopted. To remove them, call `sweep` first.
    pub async fn start(settings: NetSettings, scope: &Scope) -> Result<Arc<NetPool>, NetError> {
        let NetSettings { instance, ready, max, resolvers, allow_nets, deny_nets, named_for } = settings;
        if max == 0 || max > SLOTS_MAX || ready > max {
            return Err(NetError::Settings { ready, max });
        }
        let names = NetNames::of(&instance);
        let exceptions = PolicyExceptions { allow: allow_nets, deny: deny_nets };
        let found = namespaces(&names)?.iter().filter_map(|name| names.number(name)).collect::<BTreeSet<_>>();
        enable_forwarding().map_err(|cause| NetError::Host { action: "enable forwarding", cause })?;
        let block = block::claim(&names).await?;
        let rules = host_rules(&names, block, &exceptions);
        nft(&rules, None).await.map_err(|cause| NetError::Command { action: "set up the host's rules", cause })?;
        let (denials, _) = broadcast::channel(DENIALS_WAITING);
        let site = SlotContext {
            names,
            block,
            exceptions: Arc::new(exceptions),
            resolvers: resolvers_or_hosts(resolvers).into(),
            named_for,
            denials,
            writers: Arc::new(Semaphore::new(NAMED_WRITERS_MAX)),
            scope: scope.child(),
        };
        let books = SlotTable { used: found.clone(), orphans: found, ..SlotTable::default() };
        let pool = Arc::new(NetPool {
            instance,
            site,
            ready_wanted: ready,
            max,
            books: Mutex::new(books),
            bell: Notify::new(),
            makers: Semaphore::new(MAKERS_MAX as usize),
            refill: Mutex::new(None),
        });
        let task = pool.site.scope.start("net refill", pool.clone().keep_filled());
        *pool.refill.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        Ok(pool)
    }

    /// Returns a slot that was made ahead, or makes one. Dropping the call loses no slot.
    pub async fn take(self: &Arc<Self>) -> Result<NetSlot, NetError> {
        loop {
            if let Some(slot) = self.pop_ready()? {
                self.bell.notify_one();
                return Ok(slot);
            }
            // The new slot goes through the ready list, so that it is not lost if this call is
            // dropped.
            let pool = self.clone();
            self.site.scope.run("make slot", async move { pool.make_one().await }).await??;
        }
    }

    /// Removes a slot after use, even if this call is dropped.
    pub async fn give_back(self: &Arc<Self>, slot: NetSlot) -> Result<(), NetError> {
        let pool = self.clone();
        self.site.scope.run("remove slot", async move { pool.remove_one(slot).await }).await?
    }

    /// Takes over a slot that an earlier process of this instance had taken, and always applies the
    /// egress list. Connections that the same list allowed continue. A call that fails or is
    /// dropped can be repeated.
    pub async fn adopt(&self, name: &str, egress: &Egress) -> Result<NetSlot, NetError> {
        let unknown = || NetError::Unknown { name: name.to_owned() };
        let number = self.site.names.number(name).ok_or_else(unknown)?;
        if !self.books().orphans.contains(&number) {
            return Err(unknown());
        }
        let slot = NetSlot::adopt(&self.site, number, egress).await?;
        // Of two concurrent calls only one gets here, because only one can bind the relay's port.
        if self.books().orphans.remove(&number) { Ok(slot) } else { Err(unknown()) }
    }

    /// Removes a slot of an earlier process that was not adopted. Ignores adopted and unknown
    /// slots.
    pub async fn discard(&self, name: &str) -> Result<(), NetError> {
        let Some(number) = self.site.names.number(name) else { return Ok(()) };
        if !self.books().orphans.remove(&number) {
            return Ok(());
        }
        self.removed(number, super::slot::remove(&[name.to_owned()]).await)
    }

    /// Subscribes to the denials of all slots. Each target is reported once a minute and slot. A
    /// receiver that is too slow loses the oldest.
    pub fn denials(&self) -> broadcast::Receiver<Denial> {
        self.site.denials.subscribe()
    }

    /// Returns the identity of this instance.
    pub fn instance(&self) -> String {
        self.instance.clone()
    }

    /// Returns the names of all slots except stuck ones: ready, taken, being made, or to be
    /// adopted.
    pub fn present(&self) -> BTreeSet<String> {
        let books = self.books();
        books.used.difference(&books.stuck).map(|number| self.site.names.slot(*number)).collect()
    }

    /// Returns the names of the slots whose removal failed. Only `remove_stray` frees their
    /// numbers, even if nothing is left of them.
    pub fn stuck(&self) -> BTreeSet<String> {
        self.books().stuck.iter().map(|number| self.site.names.slot(*number)).collect()
    }

    /// Removes a namespace or link of this instance that no slot of the pool owns, or the remains
    /// of a stuck slot, and frees the number. Continues even if this call is dropped.
    pub async fn remove_stray(self: &Arc<Self>, name: &str) -> Result<(), NetError> {
        let unknown = || NetError::Unknown { name: name.to_owned() };
        let number = self.site.names.number(name).ok_or_else(unknown)?;
        // Claimed first, so that no slot gets this number meanwhile and only one of two concurrent
        // calls continues.
        if !self.books().claim_stray(number) {
            return Err(unknown());
        }
        let (pool, name) = (self.clone(), name.to_owned());
        let removing = async move { pool.removed(number, super::slot::remove(&[name]).await) };
        self.site.scope.run("remove stray slot", removing).await?
    }

    /// Returns the number of slots.
    pub fn counts(&self) -> SlotCounts {
        let books = self.books();
        SlotCounts { ready: books.ready.len(), present: books.used.len() }
    }

    /// Returns the largest number of slots.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Ends the pool and removes everything that the instance has in the kernel, taken slots
    /// included.
    pub async fn close(&self) -> Result<(), NetError> {
        self.end().await?;
        sweep(&self.instance, &[]).await
    }

    /// Ends the pool but keeps taken slots, for the next process to adopt.
    pub async fn detach(&self) -> Result<(), NetError> {
        let ready = self.end().await?;
        let ready: Vec<_> = ready.iter().map(|slot| slot.name().to_owned()).collect();
        super::slot::remove(&ready).await
    }

    /// Stops making slots, waits for work in progress, and returns the slots that were not taken.
    /// Their relays have ended.
    async fn end(&self) -> Result<Vec<NetSlot>, NetError> {
        self.books().closed = true;
        self.site.scope.token().cancel();
        let refill = self.refill.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(refill) = refill {
            let _ = refill.await;
        }
        // The permits are released at once: later callers see that the pool is closed.
        drop(self.makers.acquire_many(MAKERS_MAX).await.map_err(|_| NetError::Closed)?);
        Ok(self.books().ready.drain(..).collect())
    }

    async fn keep_filled(self: Arc<Self>) {
        let token = self.site.scope.token();
        loop {
            let made = if self.wants_more() { Some(self.make_one().await) } else { None };
            let pause = match made {
                Some(Ok(())) => continue,
                Some(Err(NetError::Closed)) => return,
                Some(Err(error)) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "could not create a network slot in advance"
                    );
                    Some(REFILL_PAUSE)
                }
                None => None,
            };
            tokio::select! {
                () = token.cancelled() => return,
                () = self.rung(), if pause.is_none() => {}
                () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            }
        }
    }

    /// Waits until a slot is taken, and then until its machine has had time to start. Making the
    /// next slot would compete with that.
    async fn rung(&self) {
        self.bell.notified().await;
        tokio::time::sleep(REFILL_SETTLE).await;
    }

    async fn make_one(&self) -> Result<(), NetError> {
        let _permit = self.makers.acquire().await.map_err(|_| NetError::Closed)?;
        let number = self.books().reserve(self.max)?;
        match NetSlot::make(&self.site, number).await {
            Ok(slot) => {
                self.books().ready.push_back(slot);
                Ok(())
            }
            Err(error) => {
                self.books().used.remove(&number);
                Err(error)
            }
        }
    }

    async fn remove_one(&self, slot: NetSlot) -> Result<(), NetError> {
        let _permit = self.makers.acquire().await.map_err(|_| NetError::Closed)?;
        let number = slot.number();
        self.removed(number, destroy(slot).await)
    }

    /// Frees the number of a removed slot. If the removal failed, the number is stuck until the
    /// audit.
    fn removed(&self, number: usize, outcome: Result<(), NetError>) -> Result<(), NetError> {
        let mut books = self.books();
        match &outcome {
            Ok(()) => books.used.remove(&number),
            Err(_) => books.stuck.insert(number),
        };
        drop(books);
        self.bell.notify_one();
        outcome
    }

    fn pop_ready(&self) -> Result<Option<NetSlot>, NetError> {
        let mut books = self.books();
        if books.closed { Err(NetError::Closed) } else { Ok(books.ready.pop_front()) }
    }

    fn wants_more(&self) -> bool {
        let books = self.books();
        books.ready.len() < self.ready_wanted && books.used.len() < self.max
    }

    fn books(&self) -> MutexGuard<'_, SlotTable> {
        // Each change under this lock is one step, so a panic elsewhere cannot leave it half done.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotTable {
    /// Picks a free number and marks it as used.
    fn reserve(&mut self, max: usize) -> Result<usize, NetError> {
        if self.closed {
            return Err(NetError::Closed);
        }
        if self.used.len() >= max {
            return Err(NetError::Full { max });
        }
        let candidates = (0..SLOTS_MAX).map(|step| (self.next + step) % SLOTS_MAX);
        let number = candidates.into_iter().find(|number| !self.used.contains(number)).ok_or(NetError::Full { max })?;
        self.used.insert(number);
        self.next = number + 1;
        Ok(number)
    }

    /// Marks a free or stuck number as used. Returns `false` if the number has an owner.
    fn claim_stray(&mut self, number: usize) -> bool {
        self.stuck.remove(&number) || self.used.insert(number)
    }
}

fn enable_forwarding() -> std::io::Result<()> {
    const SETTING: &str = "/proc/sys/net/ipv4/ip_forward";
    // Writing resets other settings of the host's links, even if the value stays the same.
    if std::fs::read_to_string(SETTING)?.trim() == "1" { Ok(()) } else { std::fs::write(SETTING, "1") }
}

fn resolvers_or_hosts(settings: Vec<SocketAddr>) -> Vec<SocketAddr> {
    if !settings.is_empty() {
        return settings;
    }
    let found = std::fs::read_to_string("/etc/resolv.conf").map(|text| dns::resolvers(&text)).unwrap_or_default();
    if found.is_empty() {
        tracing::warn!("/etc/resolv.conf names no resolver: guests cannot resolve names");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_round() {
        let mut books = SlotTable::default();
        assert_eq!(books.reserve(3).unwrap(), 0);
        assert_eq!(books.reserve(3).unwrap(), 1);
        books.used.remove(&0);
        assert_eq!(books.reserve(3).unwrap(), 2, "a number is not used again at once");
        books.next = SLOTS_MAX;
        assert_eq!(books.reserve(3).unwrap(), 0);
        assert!(matches!(books.reserve(3), Err(NetError::Full { max: 3 })));
        books.closed = true;
        assert!(matches!(books.reserve(9), Err(NetError::Closed)));
    }

    #[test]
    fn a_stray_is_claimed_once() {
        let mut books = SlotTable::default();
        let taken = books.reserve(9).unwrap();
        assert!(!books.claim_stray(taken), "somebody has it");
        books.stuck.insert(taken);
        assert!(books.claim_stray(taken) && !books.claim_stray(taken));
        assert!(books.claim_stray(7) && !books.claim_stray(7));
        assert_eq!(books.used, BTreeSet::from([taken, 7]));
    }
}
