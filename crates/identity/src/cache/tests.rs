//! The cache in front of a provider that counts, waits and fails on request.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Semaphore;

use super::*;
use crate::{
    fetch::FetchError,
    testing::{TestClock, soon},
};

/// Each document is the number of its fetch.
struct CountingProvider {
    fetches: AtomicUsize,
    down: AtomicBool,
    /// Each fetch takes one permit.
    permits: Semaphore,
}

#[async_trait]
impl FetchDocument for CountingProvider {
    async fn fetch(&self, _: &Url, _: usize) -> Result<Bytes, FetchError> {
        let number = self.fetches.fetch_add(1, Ordering::SeqCst) + 1;
        self.permits.acquire().await.unwrap().forget();
        match self.down.load(Ordering::SeqCst) {
            true => Err(FetchError::Status { status: 503 }),
            false => Ok(number.to_string().into()),
        }
    }
}

struct Setup {
    cache: Arc<DocumentCache<usize>>,
    provider: Arc<CountingProvider>,
    clock: Arc<TestClock>,
}

impl Setup {
    fn new() -> Self {
        let provider = Arc::new(CountingProvider {
            fetches: AtomicUsize::new(0),
            down: AtomicBool::new(false),
            permits: Semaphore::new(1000),
        });
        let clock = Arc::new(TestClock::new());
        let source = DocumentSource {
            what: "number",
            url: Url::parse("https://id.example/number").unwrap(),
            bytes_max: 10,
            read: Box::new(|bytes| String::from_utf8_lossy(bytes).parse().map_err(|_| "not a number".to_owned())),
        };
        let cache = DocumentCache::new(source, provider.clone(), clock.clone(), Scope::new());
        Self { cache: Arc::new(cache), provider, clock }
    }

    async fn get(&self) -> Result<usize, DocumentError> {
        soon(self.cache.get()).await.map(|number| *number)
    }

    fn fetches(&self) -> usize {
        self.provider.fetches.load(Ordering::SeqCst)
    }

    fn set_down(&self, down: bool) {
        self.provider.down.store(down, Ordering::SeqCst);
    }

    /// Waits until no fetch runs any more.
    async fn settled(&self) {
        drop(soon(self.cache.shared.gate.lock()).await);
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_document_is_refreshed_hourly() {
    let setup = Setup::new();
    assert_eq!(setup.get().await, Ok(1));
    setup.clock.advance(PROVIDER_DOCUMENT_FRESH - SECOND);
    assert_eq!(setup.get().await, Ok(1));
    setup.clock.advance(SECOND);
    assert_eq!(setup.get().await, Ok(2), "the reader waits for the new one");
    assert_eq!(setup.fetches(), 2);
}

#[tokio::test]
async fn readers_share_one_fetch() {
    let setup = Setup::new();
    setup.provider.permits.forget_permits(1000);
    let readers: Vec<_> = (0..20).map(|_| setup.cache.get()).collect();
    let mut readers: Vec<_> = readers.into_iter().map(Box::pin).collect();
    // Every reader has begun before the provider answers.
    for reader in &mut readers {
        let polled = std::future::poll_fn(|context| std::task::Poll::Ready(reader.as_mut().poll(context))).await;
        assert!(polled.is_pending());
    }
    setup.provider.permits.add_permits(1);
    for reader in readers {
        assert_eq!(*soon(reader).await.unwrap(), 1);
    }
    assert_eq!(setup.fetches(), 1);
}

#[tokio::test]
async fn a_fetch_outlives_the_reader_that_began_it() {
    let setup = Setup::new();
    setup.provider.permits.forget_permits(1000);
    let mut reader = Box::pin(setup.cache.get());
    let polled = std::future::poll_fn(|context| std::task::Poll::Ready(reader.as_mut().poll(context))).await;
    assert!(polled.is_pending());
    drop(reader);
    setup.provider.permits.add_permits(1);
    assert_eq!(setup.get().await, Ok(1));
    assert_eq!(setup.fetches(), 1);
}

#[tokio::test]
async fn an_old_document_is_served_for_a_day() {
    let setup = Setup::new();
    assert_eq!(setup.get().await, Ok(1));
    setup.set_down(true);
    setup.clock.advance(PROVIDER_DOCUMENT_FRESH);
    assert_eq!(setup.get().await, Ok(1));
    assert_eq!(setup.get().await, Ok(1));
    assert_eq!(setup.fetches(), 2, "a second fetch follows after a pause only");
    setup.clock.advance(PROVIDER_FETCH_PAUSE);
    assert_eq!(setup.get().await, Ok(1));
    setup.settled().await;
    setup.clock.advance(PROVIDER_DOCUMENT_STALE_MAX - PROVIDER_DOCUMENT_FRESH - PROVIDER_FETCH_PAUSE - SECOND);
    assert_eq!(setup.get().await, Ok(1));
    setup.settled().await;
    setup.clock.advance(PROVIDER_FETCH_PAUSE);
    let refused = setup.get().await.unwrap_err();
    assert!(refused.to_string().contains("the provider answered 503"), "{refused}");
    setup.set_down(false);
    setup.clock.advance(PROVIDER_FETCH_PAUSE);
    assert!(setup.get().await.is_ok());
}

#[tokio::test]
async fn while_the_provider_is_down_nobody_waits_for_it() {
    let setup = Setup::new();
    assert_eq!(setup.get().await, Ok(1));
    setup.set_down(true);
    setup.clock.advance(PROVIDER_DOCUMENT_FRESH);
    assert_eq!(setup.get().await, Ok(1));
    setup.clock.advance(PROVIDER_FETCH_PAUSE);
    setup.provider.permits.forget_permits(1000);
    assert_eq!(setup.get().await, Ok(1), "the fetch still hangs");
    assert_eq!(setup.get().await, Ok(1));
    setup.set_down(false);
    setup.provider.permits.add_permits(1);
    setup.settled().await;
    assert_eq!(setup.get().await, Ok(3), "the fetch behind it succeeded");
    assert_eq!(setup.fetches(), 3);
}

#[tokio::test]
async fn a_first_failure_is_retried_after_a_pause() {
    let setup = Setup::new();
    setup.set_down(true);
    assert!(setup.get().await.is_err());
    setup.set_down(false);
    assert!(setup.get().await.is_err());
    assert_eq!(setup.fetches(), 1);
    setup.clock.advance(PROVIDER_FIRST_FETCH_PAUSE);
    assert_eq!(setup.get().await, Ok(2));
}

#[tokio::test]
async fn a_newer_document_is_fetched_at_most_once_per_pause() {
    let setup = Setup::new();
    let seen = setup.cache.get().await.unwrap();
    for _ in 0..5 {
        assert_eq!(*setup.cache.newer_than(&seen).await.unwrap(), 1);
    }
    setup.clock.advance(PROVIDER_FETCH_PAUSE);
    assert_eq!(*setup.cache.newer_than(&seen).await.unwrap(), 2);
    assert_eq!(*setup.cache.newer_than(&seen).await.unwrap(), 2, "it is newer already");
    assert_eq!(setup.fetches(), 2);
    setup.set_down(true);
    let seen = setup.cache.get().await.unwrap();
    setup.clock.advance(PROVIDER_FETCH_PAUSE);
    for _ in 0..5 {
        assert_eq!(*setup.cache.newer_than(&seen).await.unwrap(), 2);
    }
    assert_eq!(setup.fetches(), 3);
}

#[tokio::test]
async fn a_clock_that_is_set_back_does_not_keep_a_document_young() {
    let setup = Setup::new();
    assert_eq!(setup.get().await, Ok(1));
    setup.clock.go_back(Duration::from_secs(12 * 3600));
    assert_eq!(setup.get().await, Ok(2));
}

#[test]
fn the_steps() {
    let ages = |held: Option<u64>, last: Option<u64>, last_failed| Ages {
        held: held.map(Duration::from_secs),
        last_fetch: last.map(Duration::from_secs),
        last_failed,
    };
    assert_eq!(step(ages(None, None, false)), Step::FetchFirst);
    assert_eq!(step(ages(None, Some(4), true)), Step::Refuse);
    assert_eq!(step(ages(None, Some(5), true)), Step::FetchFirst);
    assert_eq!(step(ages(Some(3599), Some(3599), false)), Step::Use);
    assert_eq!(step(ages(Some(3600), Some(3600), false)), Step::FetchFirst);
    assert_eq!(step(ages(Some(3600), Some(29), true)), Step::Use);
    assert_eq!(step(ages(Some(3600), Some(30), true)), Step::FetchBehind);
    assert_eq!(step(ages(Some(86_400), Some(29), true)), Step::Refuse);
    assert_eq!(step(ages(Some(86_400), Some(30), true)), Step::FetchFirst);
}
