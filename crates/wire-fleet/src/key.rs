//! The API key of a request, and its revocation.

use std::sync::{Arc, Weak};

use tokio::sync::watch;

/// The API key that authenticated a caller. Clones share it. A caller without a key is never
/// revoked.
#[derive(Clone, Debug, Default)]
pub struct CallerKey(Option<Arc<KeyState>>);

/// A reference that does not keep the key alive.
#[derive(Clone, Debug)]
pub struct WeakCallerKey(Weak<KeyState>);

#[derive(Debug)]
struct KeyState {
    id: Box<str>,
    revoked: watch::Sender<bool>,
}

impl CallerKey {
    /// Makes a key with this id.
    pub fn new(id: &str) -> Self {
        Self(Some(Arc::new(KeyState { id: id.into(), revoked: watch::Sender::new(false) })))
    }

    /// Returns the id of the key, if there is one.
    pub fn id(&self) -> Option<&str> {
        self.0.as_deref().map(|shared| &*shared.id)
    }

    /// Marks the key as revoked and wakes every waiter.
    pub fn revoke(&self) {
        if let Some(shared) = &self.0 {
            shared.revoked.send_replace(true);
        }
    }

    /// Whether the key was revoked.
    pub fn is_revoked(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| *shared.revoked.borrow())
    }

    /// Waits until the key is revoked.
    pub async fn revoked(&self) {
        match &self.0 {
            None => std::future::pending().await,
            Some(shared) => {
                // `shared` keeps the sender alive during the wait.
                let _ = shared.revoked.subscribe().wait_for(|revoked| *revoked).await;
            }
        }
    }

    /// Returns a weak reference.
    pub fn downgrade(&self) -> WeakCallerKey {
        WeakCallerKey(self.0.as_ref().map(Arc::downgrade).unwrap_or_default())
    }
}

impl WeakCallerKey {
    /// Returns the key, if a strong reference exists.
    pub fn upgrade(&self) -> Option<CallerKey> {
        self.0.upgrade().map(|shared| CallerKey(Some(shared)))
    }
}

/// Keys are equal if their ids are.
impl PartialEq for CallerKey {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for CallerKey {}
