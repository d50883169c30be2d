//! Owns the slots of one instance: makes a few ahead, hands them out, removes them when they come
//! back. Never decides what a guest may reach (`policy`), and never waits for a guest.
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
    names::Names,
    policy::{Exceptions, host_rules},
    slot::{Site, Slot, destroy},
    sweep::{namespaces, sweep},
};

/// The slots of one instance.
#[derive(Debug)]
pub struct NetPool {
    instance: String,
    site: Site,
    ready_wanted: usize,
    max: usize,
    books: Mutex<Books>,
    /// Rung when there may be a slot to make ahead.
    bell: Notify,
    /// Bounds how many slots are made or removed at once. Whoever holds all permits is alone.
    makers: Semaphore,
    refill: Mutex<Option<JoinHandle<()>>>,
}

/// How many slots there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotCounts {
    pub ready: usize,
    /// All that exist: ready, taken, being made, and those of an earlier process that nobody
    /// adopted.
    pub present: usize,
}

#[derive(Debug, Default)]
struct Books {
    ready: VecDeque<Slot>,
    /// Numbers of all slots that exist or are being made.
    used: BTreeSet<usize>,
    /// Numbers of slots found at start; they wait to be adopted.
    orphans: BTreeSet<usize>,
    /// Numbers of slots that nobody has and whose removal failed. They stay used, because what is
    /// left under such a name must not meet a new slot, until the audit has removed that.
    stuck: BTreeSet<usize>,
    /// Where the search for a free number starts: numbers, and with them addresses, are not used
    /// again at once.
    next: usize,
    closed: bool,
}

impl NetPool {
    /// Prepares the host and starts to make slots ahead. Slots of an earlier process are left alone
    /// and can be adopted; `sweep` removes them, and belongs before this.
    pub async fn start(settings: NetSettings, scope: &Scope) -> Result<Arc<NetPool>, NetError> {
        let NetSettings { instance, ready, max, resolvers, allow_nets, deny_nets, named_for } = settings;
        if max == 0 || max > SLOTS_MAX || ready > max {
            return Err(NetError::Settings { ready, max });
        }
        let names = Names::of(&instance);
        let exceptions = Exceptions { allow: allow_nets, deny: deny_nets };
        let found = namespaces(&names)?.iter().filter_map(|name| names.number(name)).collect::<BTreeSet<_>>();
        enable_forwarding().map_err(|cause| NetError::Host { action: "enable forwarding", cause })?;
        let block = block::claim(&names).await?;
        let rules = host_rules(&names, block, &exceptions);
        nft(&rules, None).await.map_err(|cause| NetError::Command { action: "set up the host's rules", cause })?;
        let (denials, _) = broadcast::channel(DENIALS_WAITING);
        let site = Site {
            names,
            block,
            exceptions: Arc::new(exceptions),
            resolvers: resolvers_or_hosts(resolvers).into(),
            named_for,
            denials,
            writers: Arc::new(Semaphore::new(NAMED_WRITERS_MAX)),
            scope: scope.child(),
        };
        let books = Books { used: found.clone(), orphans: found, ..Books::default() };
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

    /// Gives a slot that was made ahead, or makes one. Dropping the call loses no slot.
    pub async fn take(self: &Arc<Self>) -> Result<Slot, NetError> {
        loop {
            if let Some(slot) = self.pop_ready()? {
                self.bell.notify_one();
                return Ok(slot);
            }
            // The new slot goes through the ready list, so that it is not lost if this call is
            // dropped meanwhile.
            let pool = self.clone();
            self.site.scope.run("make slot", async move { pool.make_one().await }).await??;
        }
    }

    /// Removes a slot after use. It is removed even if this call is dropped.
    pub async fn give_back(self: &Arc<Self>, slot: Slot) -> Result<(), NetError> {
        let pool = self.clone();
        self.site.scope.run("remove slot", async move { pool.remove_one(slot).await }).await?
    }

    /// Takes over a slot that an earlier process of this instance had taken, and applies an egress
    /// list whatever was applied before. Connections that the same list had let through go on. A
    /// call that fails or is dropped can be repeated.
    pub async fn adopt(&self, name: &str, egress: &Egress) -> Result<Slot, NetError> {
        let unknown = || NetError::Unknown { name: name.to_owned() };
        let number = self.site.names.number(name).ok_or_else(unknown)?;
        if !self.books().orphans.contains(&number) {
            return Err(unknown());
        }
        let slot = Slot::adopt(&self.site, number, egress).await?;
        // Only one of two calls at once gets here, as only one can bind the relay's port.
        if self.books().orphans.remove(&number) { Ok(slot) } else { Err(unknown()) }
    }

    /// Removes a slot of an earlier process that was not adopted. Does nothing about one that was,
    /// or that never was.
    pub async fn discard(&self, name: &str) -> Result<(), NetError> {
        let Some(number) = self.site.names.number(name) else { return Ok(()) };
        if !self.books().orphans.remove(&number) {
            return Ok(());
        }
        self.removed(number, super::slot::remove(&[name.to_owned()]).await)
    }

    /// Gives what restricted guests are refused from now on, of all slots. Each target comes once a
    /// minute and slot; a receiver that is too slow loses the oldest.
    pub fn denials(&self) -> broadcast::Receiver<Denial> {
        self.site.denials.subscribe()
    }

    /// What tells this instance from others.
    pub fn instance(&self) -> String {
        self.instance.clone()
    }

    /// Names every slot that somebody has or will have: ready, taken, or being made.
    pub fn present(&self) -> BTreeSet<String> {
        let books = self.books();
        books.used.difference(&books.stuck).map(|number| self.site.names.slot(*number)).collect()
    }

    /// Names the slots whose removal failed. There may be nothing left of one by now; its number
    /// comes back all the same only with `remove_stray`.
    pub fn stuck(&self) -> BTreeSet<String> {
        self.books().stuck.iter().map(|number| self.site.names.slot(*number)).collect()
    }

    /// Removes a namespace or link of this instance that no slot of the pool has, and what is left
    /// of a slot whose removal failed; the number is free then. It is removed even if this call is
    /// dropped.
    pub async fn remove_stray(self: &Arc<Self>, name: &str) -> Result<(), NetError> {
        let unknown = || NetError::Unknown { name: name.to_owned() };
        let number = self.site.names.number(name).ok_or_else(unknown)?;
        // Taken first: nobody makes a slot of this number meanwhile, and of two calls at once only
        // one goes on.
        if !self.books().claim_stray(number) {
            return Err(unknown());
        }
        let (pool, name) = (self.clone(), name.to_owned());
        let removing = async move { pool.removed(number, super::slot::remove(&[name]).await) };
        self.site.scope.run("remove stray slot", removing).await?
    }

    /// Counts the slots.
    pub fn counts(&self) -> SlotCounts {
        let books = self.books();
        SlotCounts { ready: books.ready.len(), present: books.used.len() }
    }

    /// How many slots there may be.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Ends the pool and removes everything the instance has in the kernel, taken slots included.
    pub async fn close(&self) -> Result<(), NetError> {
        self.end().await?;
        sweep(&self.instance, &[]).await
    }

    /// Ends the pool but leaves taken slots where they are, for the next process to adopt.
    pub async fn detach(&self) -> Result<(), NetError> {
        let ready = self.end().await?;
        let ready: Vec<_> = ready.iter().map(|slot| slot.name().to_owned()).collect();
        super::slot::remove(&ready).await
    }

    /// Stops making slots, waits for work under way, and gives the slots nobody took. Their relays
    /// have ended.
    async fn end(&self) -> Result<Vec<Slot>, NetError> {
        self.books().closed = true;
        self.site.scope.token().cancel();
        let refill = self.refill.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(refill) = refill {
            let _ = refill.await;
        }
        // The permits are given back at once: whoever comes later sees that the pool is closed.
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
                    tracing::warn!(error = &error as &dyn std::error::Error, "could not make a network slot ahead");
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

    /// Waits until a slot was taken, and then until its machine has had time to start: making the
    /// next one would compete.
    async fn rung(&self) {
        self.bell.notified().await;
        tokio::time::sleep(REFILL_SETTLE).await;
    }

    async fn make_one(&self) -> Result<(), NetError> {
        let _permit = self.makers.acquire().await.map_err(|_| NetError::Closed)?;
        let number = self.books().reserve(self.max)?;
        match Slot::make(&self.site, number).await {
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

    async fn remove_one(&self, slot: Slot) -> Result<(), NetError> {
        let _permit = self.makers.acquire().await.map_err(|_| NetError::Closed)?;
        let number = slot.number();
        self.removed(number, destroy(slot).await)
    }

    /// Frees a number whose slot was removed. One whose slot could not be is left to the audit.
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

    fn pop_ready(&self) -> Result<Option<Slot>, NetError> {
        let mut books = self.books();
        if books.closed { Err(NetError::Closed) } else { Ok(books.ready.pop_front()) }
    }

    fn wants_more(&self) -> bool {
        let books = self.books();
        books.ready.len() < self.ready_wanted && books.used.len() < self.max
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // Every change under this lock is a single step, so a panic elsewhere cannot have left it
        // half done.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
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

    /// Marks a number as used that nobody has: one that is free, or stuck. `false` if somebody has
    /// it.
    fn claim_stray(&mut self, number: usize) -> bool {
        self.stuck.remove(&number) || self.used.insert(number)
    }
}

fn enable_forwarding() -> std::io::Result<()> {
    const SETTING: &str = "/proc/sys/net/ipv4/ip_forward";
    // Writing resets other settings of the host's links even if the value stays the same.
    if std::fs::read_to_string(SETTING)?.trim() == "1" { Ok(()) } else { std::fs::write(SETTING, "1") }
}

fn resolvers_or_hosts(settings: Vec<SocketAddr>) -> Vec<SocketAddr> {
    if !settings.is_empty() {
        return settings;
    }
    let found = std::fs::read_to_string("/etc/resolv.conf").map(|text| dns::resolvers(&text)).unwrap_or_default();
    if found.is_empty() {
        tracing::warn!("the host has no resolver in /etc/resolv.conf: guests will not resolve names");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_round() {
        let mut books = Books::default();
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
        let mut books = Books::default();
        let taken = books.reserve(9).unwrap();
        assert!(!books.claim_stray(taken), "somebody has it");
        books.stuck.insert(taken);
        assert!(books.claim_stray(taken) && !books.claim_stray(taken));
        assert!(books.claim_stray(7) && !books.claim_stray(7));
        assert_eq!(books.used, BTreeSet::from([taken, 7]));
    }
}
