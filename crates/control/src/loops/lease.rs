//! A lease of work that one server at a time does, and the loop that keeps the host's.

use std::time::Duration;

use crate::{
    Control,
    limits::{HOST_LEASE, HOST_LEASE_EVERY, LEASE_RENEWALS},
    store::{HOST_LEASE_NAME, LeaseTerm, StoreError},
};

/// A lease that a loop renews before it works.
pub struct WorkLease {
    name: &'static str,
    length: Duration,
    /// When it was last taken.
    taken_ns: Option<u64>,
}

impl WorkLease {
    pub fn new(name: &'static str, length: Duration) -> Self {
        Self { name, length, taken_ns: None }
    }

    /// Takes or renews the lease if it is time. Returns whether this server may work now.
    pub async fn keep(&mut self, control: &Control) -> bool {
        let now_ns = control.clock.now_ns();
        let fresh_ns = self.length.as_nanos() as u64 / LEASE_RENEWALS;
        // A clock that was set back makes the difference unknown.
        if self.taken_ns.and_then(|taken_ns| now_ns.checked_sub(taken_ns)).is_some_and(|age_ns| age_ns < fresh_ns) {
            return true;
        }
        let taken = match control.store.take_lease(self.name, LeaseTerm::new(now_ns, self.length)).await {
            Ok(taken) => taken,
            Err(error) => {
                tracing::warn!(%error, lease = self.name, "could not find out which server does this work");
                false
            }
        };
        self.taken_ns = taken.then_some(now_ns);
        taken
    }

    /// Lets another server work at once.
    pub async fn give_up(&mut self, control: &Control) {
        if self.taken_ns.take().is_none() {
            return;
        }
        if let Err(error) = control.store.drop_lease(self.name).await {
            tracing::debug!(%error, lease = self.name, "could not give up a lease");
        }
    }
}

/// Keeps the lease of the host until shutdown.
pub async fn hold_host(control: Control) {
    let token = control.scope.token();
    loop {
        tokio::select! {
            () = token.cancelled() => break,
            () = tokio::time::sleep(HOST_LEASE_EVERY) => {}
        }
        match renew_host(&control).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::error!("another server has taken over the host's part of this database; stop one of the two")
            }
            Err(error) => tracing::warn!(%error, "could not renew the lease of the host"),
        }
    }
    if let Err(error) = control.store.drop_lease(HOST_LEASE_NAME).await {
        tracing::debug!(%error, "could not give up the lease of the host");
    }
}

/// Renews the lease of the host. Returns false if another host has it now.
pub(super) async fn renew_host(control: &Control) -> Result<bool, StoreError> {
    control.store.take_lease(HOST_LEASE_NAME, LeaseTerm::new(control.clock.now_ns(), HOST_LEASE)).await
}

/// Whether a server with a host is alive.
pub async fn host_is_somewhere(control: &Control) -> bool {
    match control.store.lease_end(HOST_LEASE_NAME).await {
        Ok(until_ns) => until_ns.is_some_and(|until_ns| until_ns > control.clock.now_ns()),
        Err(error) => {
            tracing::warn!(%error, "could not find out whether a server with a host is alive");
            true
        }
    }
}
