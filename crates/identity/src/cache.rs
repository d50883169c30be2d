//! One document of a provider, kept in memory: refreshed hourly, one fetch at a time, and served
//! for a day while the provider is down. Decides when to fetch; never interprets the document.

use std::{
    error::Error,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pandastack_kit::{Clock, Scope};
use tokio::sync::OwnedMutexGuard;
use url::{Position, Url};

use crate::{
    fetch::FetchDocument,
    limits::{PROVIDER_DOCUMENT_FRESH, PROVIDER_DOCUMENT_STALE_MAX, PROVIDER_FETCH_PAUSE, PROVIDER_FIRST_FETCH_PAUSE},
};

/// Most characters of an error that are kept.
const REASON_CHARS_MAX: usize = 500;

/// A document that can be neither fetched nor served from memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {what} of the identity provider is not available: {reason}")]
pub struct DocumentError {
    what: &'static str,
    reason: String,
}

/// Reads a document, or says what is wrong with it.
pub(crate) type DocumentReader<T> = Box<dyn Fn(&[u8]) -> Result<T, String> + Send + Sync>;

/// What a cache holds, and where it comes from.
pub(crate) struct DocumentSource<T> {
    /// Name of the document in errors and in the log.
    pub what: &'static str,
    pub url: Url,
    pub bytes_max: usize,
    pub read: DocumentReader<T>,
}

/// The cache of one document.
pub(crate) struct DocumentCache<T> {
    shared: Arc<Shared<T>>,
    scope: Scope,
}

struct Shared<T> {
    source: DocumentSource<T>,
    fetch: Arc<dyn FetchDocument>,
    clock: Arc<dyn Clock>,
    state: Mutex<State<T>>,
    /// Held while a fetch runs.
    gate: Arc<tokio::sync::Mutex<()>>,
}

struct State<T> {
    held: Option<Held<T>>,
    last: Option<LastFetch>,
}

struct Held<T> {
    document: Arc<T>,
    since_ns: u64,
}

/// How the last fetch ended, and when.
struct LastFetch {
    at_ns: u64,
    failure: Option<String>,
}

/// What a reader of the document does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Use,
    /// Fetch, wait, and use what is held then.
    FetchFirst,
    /// Use the old document, and fetch meanwhile: the last fetch failed, so the next one may too.
    FetchBehind,
    Refuse,
}

/// The ages that decide a step. An age is `None` if there is nothing of that kind.
#[derive(Clone, Copy, Debug, Default)]
struct Ages {
    held: Option<Duration>,
    last_fetch: Option<Duration>,
    last_failed: bool,
}

fn step(ages: Ages) -> Step {
    let pause = if ages.held.is_some() { PROVIDER_FETCH_PAUSE } else { PROVIDER_FIRST_FETCH_PAUSE };
    let may_fetch = ages.last_fetch.is_none_or(|age| age >= pause);
    match ages.held {
        Some(age) if age < PROVIDER_DOCUMENT_FRESH => Step::Use,
        Some(age) if age < PROVIDER_DOCUMENT_STALE_MAX => match (may_fetch, ages.last_failed) {
            (false, _) => Step::Use,
            (true, false) => Step::FetchFirst,
            (true, true) => Step::FetchBehind,
        },
        _ if may_fetch => Step::FetchFirst,
        _ => Step::Refuse,
    }
}

impl<T: Send + Sync + 'static> DocumentCache<T> {
    pub fn new(source: DocumentSource<T>, fetch: Arc<dyn FetchDocument>, clock: Arc<dyn Clock>, scope: Scope) -> Self {
        let state = Mutex::new(State { held: None, last: None });
        Self { shared: Arc::new(Shared { source, fetch, clock, state, gate: Arc::default() }), scope }
    }

    /// Returns the document, fetched now if it is too old.
    pub async fn get(&self) -> Result<Arc<T>, DocumentError> {
        match self.shared.step() {
            Step::Use | Step::Refuse => return self.shared.usable(),
            Step::FetchBehind => {
                if let Ok(gate) = self.shared.gate.clone().try_lock_owned() {
                    let shared = self.shared.clone();
                    self.scope.start("refresh a provider's document", async move { shared.refresh(gate).await });
                }
                return self.shared.usable();
            }
            Step::FetchFirst => {}
        }
        let gate = self.shared.gate.clone().lock_owned().await;
        // Another reader may have fetched it meanwhile.
        if self.shared.step() == Step::FetchFirst {
            self.refresh(gate).await;
        }
        self.shared.usable()
    }

    /// Returns a document that is newer than one that lacks something, if a fetch is allowed now.
    /// Otherwise returns the one that is held.
    pub async fn newer_than(&self, seen: &Arc<T>) -> Result<Arc<T>, DocumentError> {
        let gate = self.shared.gate.clone().lock_owned().await;
        let ages = self.shared.ages();
        let unchanged = self.shared.usable().is_ok_and(|held| Arc::ptr_eq(&held, seen));
        if unchanged && ages.last_fetch.is_none_or(|age| age >= PROVIDER_FETCH_PAUSE) {
            self.refresh(gate).await;
        }
        self.shared.usable()
    }

    /// Fetches in the scope, so that a caller that hangs up does not waste the fetch.
    async fn refresh(&self, gate: OwnedMutexGuard<()>) {
        let shared = self.shared.clone();
        if let Err(error) =
            self.scope.run("fetch a provider's document", async move { shared.refresh(gate).await }).await
        {
            self.shared.note(Err(error.to_string()));
        }
    }
}

impl<T> Shared<T> {
    /// Fetches the document. The gate is held until the result is noted.
    async fn refresh(&self, _gate: OwnedMutexGuard<()>) {
        let fetched = self.fetch.fetch(&self.source.url, self.source.bytes_max).await;
        let read = match &fetched {
            Ok(bytes) => (self.source.read)(bytes),
            Err(error) => Err(in_one_line(error)),
        };
        if let Err(reason) = &read {
            // The query may contain a key.
            let url = &self.source.url[..Position::AfterPath];
            tracing::warn!(document = self.source.what, url, reason, "identity provider failed");
        }
        self.note(read);
    }

    fn note(&self, read: Result<T, String>) {
        let at_ns = self.clock.now_ns();
        let mut state = self.lock();
        match read {
            Ok(document) => {
                state.held = Some(Held { document: Arc::new(document), since_ns: at_ns });
                state.last = Some(LastFetch { at_ns, failure: None });
            }
            Err(reason) => {
                let reason = reason.chars().take(REASON_CHARS_MAX).collect();
                state.last = Some(LastFetch { at_ns, failure: Some(reason) });
            }
        }
    }

    fn step(&self) -> Step {
        step(self.ages())
    }

    /// A clock that was set back makes everything old, and not young for ever.
    fn ages(&self) -> Ages {
        let now_ns = self.clock.now_ns();
        let age = |at_ns: u64| Duration::from_nanos(now_ns.abs_diff(at_ns));
        let state = self.lock();
        Ages {
            held: state.held.as_ref().map(|held| age(held.since_ns)),
            last_fetch: state.last.as_ref().map(|last| age(last.at_ns)),
            last_failed: state.last.as_ref().is_some_and(|last| last.failure.is_some()),
        }
    }

    /// Returns the held document unless it is too old to be served.
    fn usable(&self) -> Result<Arc<T>, DocumentError> {
        let is_young = self.ages().held.is_some_and(|age| age < PROVIDER_DOCUMENT_STALE_MAX);
        let state = self.lock();
        match &state.held {
            Some(held) if is_young => Ok(held.document.clone()),
            _ => {
                let failure = state.last.as_ref().and_then(|last| last.failure.clone());
                let reason = failure.unwrap_or_else(|| "it was not fetched yet".to_owned());
                Err(DocumentError { what: self.source.what, reason })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Renders an error and its causes in one line.
pub(crate) fn in_one_line(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
