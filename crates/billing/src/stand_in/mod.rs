//! A server on loopback that behaves as Stripe documents it, for tests. It takes meter events,
//! customers, checkouts and portals, fails on demand, and remembers what it has counted. Enabled by
//! the feature `stripe-for-tests`.
//!
//! Rules and their sources (docs.stripe.com):
//! - meter events: fields, lengths, whole numbers, 35 days back and 5 minutes ahead, one request at
//!   a time for each customer and meter: `/billing/subscriptions/usage-based/recording-usage-api`,
//!   `/api/billing/meter-event/create`;
//! - an identifier is unique for "at least 24 hours": here for exactly 24, the worst case;
//! - idempotency keys: `/api/idempotent_requests` and `/error-low-level`. Answers are stored once
//!   the work has begun, server errors included. Refused parameters and 429 are not stored;
//! - signatures of webhooks: `/webhooks`.
//!
//! Stripe documents no message for a repeated identifier or a wrong time. The ones here are those
//! that its users report.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod books;
mod serve;
#[cfg(test)]
mod tests;
mod transport;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use books::Books;
pub use books::{CountedEvent, ReceivedRequest, StripeFault};
use pandastack_kit::{Clock, Scope, Secret};
use serde_json::{Value, json};
use tokio::net::TcpListener;
pub use transport::LoopbackTransport;

use crate::stripe_events::signature_header;

/// How long a stand-in's connections may take to end.
const CLOSE_MAX: Duration = Duration::from_secs(60);

/// A running stand-in for Stripe.
pub struct StripeStandIn {
    address: SocketAddr,
    books: Arc<Mutex<Books>>,
    clock: Arc<dyn Clock>,
    scope: Scope,
}

impl StripeStandIn {
    /// Starts a server that accepts one secret key. The clock decides about ages of events and
    /// keys.
    pub async fn start(secret_key: &str, clock: Arc<dyn Clock>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (books, scope) = (Arc::new(Mutex::new(Books::new(secret_key))), Scope::new());
        let serving = serve::run(listener, books.clone(), clock.clone(), scope.child());
        scope.start("stand-in for Stripe", serving);
        Self { address, books, clock, scope }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its address as a base for paths, without a slash at the end.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns a transport to it that waits this long for an answer.
    pub fn transport(&self, answer_max: Duration) -> LoopbackTransport {
        LoopbackTransport::new(self.address, answer_max, self.scope.child())
    }

    /// Lets the next request fail. Several faults apply to requests in order.
    pub fn fail_next(&self, fault: StripeFault) {
        self.lock().faults.push_back(fault);
    }

    /// Returns every event that was counted, in order.
    pub fn counted(&self) -> Vec<CountedEvent> {
        self.lock().counted.clone()
    }

    /// Sums up what a customer would pay for.
    pub fn billed(&self, customer: &str, event_name: &str) -> u128 {
        let books = self.lock();
        let own = books.counted.iter().filter(|event| event.customer == customer && event.event_name == event_name);
        own.map(|event| u128::from(event.value)).sum()
    }

    /// Returns every request that arrived, refused ones included.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.lock().requests.clone()
    }

    /// Makes an event of the present time, as Stripe would send it.
    pub fn event(&self, id: &str, kind: &str, object: Value) -> String {
        let created = self.clock.now_ns() / 1_000_000_000;
        json!({
            "id": id, "object": "event", "api_version": crate::stripe::STRIPE_API_VERSION, "created": created,
            "livemode": false, "type": kind, "data": { "object": object },
        })
        .to_string()
    }

    /// Signs an event with every secret, posts it to a server on loopback and returns the status.
    pub async fn send_webhook(&self, to: SocketAddr, path: &str, event: &str, secrets: &[&Secret<String>]) -> u16 {
        let signature = signature_header(event.as_bytes(), secrets, self.clock.now_ns() / 1_000_000_000);
        let headers = [("Stripe-Signature", signature), ("Content-Type", "application/json; charset=utf-8".to_owned())];
        let transport = LoopbackTransport::new(to, CLOSE_MAX, self.scope.child());
        transport.post(path, &headers, event.as_bytes().to_vec()).await.unwrap().status
    }

    /// Stops the server. Connections in progress break.
    pub async fn stop(&self) {
        assert_eq!(self.scope.close(CLOSE_MAX).await, 0, "the stand-in's tasks end");
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
