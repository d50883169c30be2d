//! Answers to HTTP-01 challenges of an ACME server, as long as an order needs them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The answers by token. Clones share them. An order has few, and removes them at its end.
#[derive(Clone, Debug, Default)]
pub struct HttpChallenges(Arc<Mutex<HashMap<String, String>>>);

impl HttpChallenges {
    pub(crate) fn put(&self, token: &str, answer: &str) {
        self.answers().insert(token.to_owned(), answer.to_owned());
    }

    pub(crate) fn remove(&self, token: &str) {
        self.answers().remove(token);
    }

    pub(crate) fn get(&self, token: &str) -> Option<String> {
        self.answers().get(token).cloned()
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
