//! Remembers how to release each thing as it is acquired; one path releases everything, in reverse.

use std::{future::Future, pin::Pin};

type Release = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A list of releases. Dropping it with entries left is a bug that logs itself.
#[derive(Default)]
pub struct Undo {
    releases: Vec<(&'static str, Release)>,
}

impl Undo {
    /// Makes an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Remembers one release under a name for the log.
    pub fn hold<F, W>(&mut self, name: &'static str, release: F)
    where
        F: FnOnce() -> W + Send + Sync + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        self.releases.push((name, Box::new(move || Box::pin(release()))));
    }

    /// Appends another list; its entries are released before those already here.
    pub fn absorb(&mut self, mut other: Undo) {
        self.releases.append(&mut other.releases);
    }

    /// Releases everything, last acquired first.
    pub async fn unwind(mut self) {
        while let Some((name, release)) = self.releases.pop() {
            tracing::trace!(resource = name, "release");
            release().await;
        }
    }

    /// Gives up the list without releasing: what it held belongs to somebody else now, such as the next start's recovery.
    pub fn forget(mut self) {
        self.releases.clear();
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if !self.releases.is_empty() {
            let names: Vec<_> = self.releases.iter().map(|(name, _)| *name).collect();
            tracing::error!(?names, "resources were dropped without being released");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn releases_in_reverse() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut undo = Undo::new();
        for number in 1..=3 {
            let order = order.clone();
            undo.hold("number", move || async move { order.lock().unwrap().push(number) });
        }
        undo.unwind().await;
        assert_eq!(*order.lock().unwrap(), [3, 2, 1]);
    }
}
