//! How long a connection may wait for a request: minutes for the first byte, less for the rest of
//! the head. Pools of clients keep a connection for 90 seconds and send without asking, so an
//! unused connection stays longer than that.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::rt::{Sleep, Timer};

/// Tells the timer of a connection that bytes of a request have arrived.
#[derive(Clone, Default)]
pub struct Arrivals(Arc<AtomicBool>);

impl Arrivals {
    /// Call it for each read that brought bytes.
    pub fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The timer of one connection. hyper sets it when it begins to wait for a request, and polls it
/// after each read that brought no whole head. hyper uses it for nothing else.
pub struct HeadTimer {
    pub arrivals: Arrivals,
    /// How long the rest of a head may take after its first byte.
    pub head_max: Duration,
    /// How long the first byte may take.
    pub unused_max: Duration,
}

impl Timer for HeadTimer {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Sleep>> {
        self.arrivals.0.store(false, Ordering::Relaxed);
        Box::pin(HeadSleep {
            arrivals: self.arrivals.clone(),
            head_max: self.head_max,
            has_begun: false,
            until: Box::pin(tokio::time::sleep(self.unused_max)),
        })
    }

    fn sleep_until(&self, _: Instant) -> Pin<Box<dyn Sleep>> {
        self.sleep(self.head_max)
    }
}

/// Ends when the head is late.
struct HeadSleep {
    arrivals: Arrivals,
    head_max: Duration,
    has_begun: bool,
    until: Pin<Box<tokio::time::Sleep>>,
}

impl Sleep for HeadSleep {}

impl Future for HeadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.has_begun && self.arrivals.0.load(Ordering::Relaxed) {
            self.has_begun = true;
            let late = tokio::time::Instant::now() + self.head_max;
            self.until.as_mut().reset(late);
        }
        self.until.as_mut().poll(cx)
    }
}
