//! The key of a request, and its revocation.

use std::sync::{Arc, Weak};

use tokio::sync::watch;

/// The API key that let a caller in. Clones are the same one. Without a key it is never revoked.
#[derive(Clone, Debug, Default)]
pub struct CallerKey(Option<Arc<Shared>>);

/// A key that nobody may be waiting for any more.
#[derive(Clone, Debug)]
pub struct WeakCallerKey(Weak<Shared>);

#[derive(Debug)]
struct Shared {
    id: Box<str>,
    revoked: watch::Sender<bool>,
}

impl CallerKey {
    /// Makes the key that has this id.
    pub fn new(id: &str) -> Self {
        Self(Some(Arc::new(Shared { id: id.into(), revoked: watch::Sender::new(false) })))
    }

    /// Gives the id of the key, if there is one.
    pub fn id(&self) -> Option<&str> {
        self.0.as_deref().map(|shared| &*shared.id)
    }

    /// Tells everybody who holds this key that it was revoked.
    pub fn revoke(&self) {
        if let Some(shared) = &self.0 {
            shared.revoked.send_replace(true);
        }
    }

    /// Says whether the key was revoked.
    pub fn is_revoked(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| *shared.revoked.borrow())
    }

    /// Waits until the key is revoked.
    pub async fn revoked(&self) {
        match &self.0 {
            None => std::future::pending().await,
            Some(shared) => {
                // Held here, so the sender outlives the wait.
                let _ = shared.revoked.subscribe().wait_for(|revoked| *revoked).await;
            }
        }
    }

    /// Gives a reference that does not keep the key.
    pub fn downgrade(&self) -> WeakCallerKey {
        WeakCallerKey(self.0.as_ref().map(Arc::downgrade).unwrap_or_default())
    }
}

impl WeakCallerKey {
    /// Gives the key, if anybody still holds it.
    pub fn upgrade(&self) -> Option<CallerKey> {
        self.0.upgrade().map(|shared| CallerKey(Some(shared)))
    }
}

/// Two keys are the same if their ids are.
impl PartialEq for CallerKey {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for CallerKey {}
