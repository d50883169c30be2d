//! Failures and waits that a test orders.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use pandastack_model::Fault;
use tokio::sync::Semaphore;

use super::StubHost;

/// Faults that the test has ordered, by the name of the port's method.
#[derive(Default)]
pub(super) struct OrderedFaults {
    once: Mutex<BTreeMap<&'static str, Fault>>,
    always: Mutex<BTreeMap<&'static str, Fault>>,
    /// Faults of the children of the next fork, by index.
    children: Mutex<BTreeMap<usize, Fault>>,
}

/// Where requests wait while it is closed. It starts open.
pub struct StubGate {
    closed: AtomicBool,
    waiting: AtomicUsize,
    passes: Semaphore,
}

/// A request at the gate, which is counted until it passes or is dropped.
struct WaitingRequest<'a>(&'a AtomicUsize);

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Default for StubGate {
    fn default() -> Self {
        Self { closed: AtomicBool::new(false), waiting: AtomicUsize::new(0), passes: Semaphore::new(0) }
    }
}

impl StubGate {
    /// Makes every later request wait.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Lets some of the waiting requests pass.
    pub fn let_through(&self, requests: usize) {
        self.passes.add_permits(requests);
    }

    /// How many requests wait now.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    pub(super) async fn pass(&self) {
        if self.closed.load(Ordering::SeqCst) {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let _counted = WaitingRequest(&self.waiting);
            self.passes.acquire().await.unwrap().forget();
        }
    }
}

impl StubHost {
    /// Makes the next call of a method fail.
    pub fn fail_next(&self, verb: &'static str, fault: Fault) {
        self.orders.once.lock().unwrap().insert(verb, fault);
    }

    /// Makes every later call of a method fail.
    pub fn fail_always(&self, verb: &'static str, fault: Fault) {
        self.orders.always.lock().unwrap().insert(verb, fault);
    }

    /// Makes children of the next fork fail, by index.
    pub fn fail_children(&self, faults: impl IntoIterator<Item = (usize, Fault)>) {
        self.orders.children.lock().unwrap().extend(faults);
    }

    /// Returns the fault that was ordered for this call.
    pub(super) fn check(&self, verb: &'static str) -> Result<(), Fault> {
        let once = self.orders.once.lock().unwrap().remove(verb);
        let fault = once.or_else(|| self.orders.always.lock().unwrap().get(verb).cloned());
        fault.map_or(Ok(()), Err)
    }

    /// Waits at the gate, then checks.
    pub(super) async fn enter(&self, verb: &'static str) -> Result<(), Fault> {
        self.gate.pass().await;
        self.check(verb)
    }

    pub(super) fn take_failing_children(&self) -> BTreeMap<usize, Fault> {
        std::mem::take(&mut *self.orders.children.lock().unwrap())
    }
}
