//! The hasher with cheap hashes.

use super::*;
use crate::{email::EmailAddress, testing::soon};

fn hasher(settings: PasswordSettings) -> PasswordHasher {
    PasswordHasher::new(&settings, Scope::new()).unwrap()
}

fn cheap() -> PasswordHasher {
    hasher(PasswordSettings::cheap_for_tests())
}

fn chosen(text: &str) -> NewPassword {
    NewPassword::check(text, &EmailAddress::parse("ada@example.org").unwrap()).unwrap()
}

#[tokio::test]
async fn only_the_right_password_is_correct() {
    let hasher = cheap();
    let stored = hasher.hash(&chosen("correct horse")).await.unwrap();
    assert!(stored.starts_with("$argon2id$v=19$m=8,t=1,p=1$"), "{stored}");
    let verify = async |password: &str| hasher.verify(password, Some(&stored)).await.unwrap();
    assert_eq!(verify("correct horse").await, PasswordVerdict::Correct);
    for wrong in ["", "correct hors", "correct horse ", "Correct horse", &"x".repeat(1_000_000)] {
        assert_eq!(verify(wrong).await, PasswordVerdict::Wrong);
    }
    let again = hasher.hash(&chosen("correct horse")).await.unwrap();
    assert_ne!(stored, again, "each hash has its own salt");
}

#[tokio::test]
async fn a_missing_user_is_verified_as_well() {
    let hasher = hasher(PasswordSettings { memory_kib: 16, iterations: 2, ..PasswordSettings::cheap_for_tests() });
    assert_eq!(hasher.verify("correct horse", None).await.unwrap(), PasswordVerdict::Wrong);
    // The stand-in asks for the same work as a real hash.
    let real = PasswordHash::new(&hasher.hash(&chosen("correct horse")).await.unwrap()).unwrap();
    assert_eq!(Params::try_from(&real).unwrap(), Params::try_from(&hasher.nobody).unwrap());
    assert_eq!((real.algorithm, real.version), (hasher.nobody.algorithm, hasher.nobody.version));
    assert_eq!(real.salt.map(|salt| salt.len()), hasher.nobody.salt.map(|salt| salt.len()));
}

/// A test vector of the reference implementation.
#[tokio::test]
async fn hashes_of_other_programs_are_read() {
    let stored = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
    assert_eq!(cheap().verify("password", Some(stored)).await.unwrap(), PasswordVerdict::Correct);
    assert_eq!(cheap().verify("passwore", Some(stored)).await.unwrap(), PasswordVerdict::Wrong);
}

#[tokio::test]
async fn a_stored_text_that_is_no_hash_is_an_error() {
    let hash = "A".repeat(43);
    let spoilt = [
        String::new(),
        "correct horse".to_owned(),
        "$argon2id$v=19$m=8,t=1,p=1".to_owned(),
        format!("$argon2d$v=19$m=8,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA${hash}"),
        format!("$argon2id$v=19$m=4000000000,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA${hash}"),
        format!("$argon2id$v=19$m=8,t=4000000000,p=1$AAAAAAAAAAAAAAAAAAAAAA${hash}"),
        "$".repeat(1000),
    ];
    for stored in &spoilt {
        let verified = cheap().verify("correct horse", Some(stored)).await;
        assert!(matches!(verified, Err(PasswordError::Stored)), "{stored}: {verified:?}");
        assert!(cheap().needs_rehash(stored), "{stored}");
    }
}

#[tokio::test]
async fn a_hash_of_other_settings_is_renewed() {
    let old = cheap();
    let stored = old.hash(&chosen("correct horse")).await.unwrap();
    assert!(!old.needs_rehash(&stored));
    for settings in [
        PasswordSettings { memory_kib: 16, ..PasswordSettings::cheap_for_tests() },
        PasswordSettings { iterations: 2, ..PasswordSettings::cheap_for_tests() },
    ] {
        let new = hasher(settings);
        assert!(new.needs_rehash(&stored));
        assert_eq!(new.verify("correct horse", Some(&stored)).await.unwrap(), PasswordVerdict::Correct);
        let renewed = new.rehash("correct horse").await.unwrap();
        assert!(!new.needs_rehash(&renewed));
    }
}

#[tokio::test]
async fn past_the_queue_callers_are_refused() {
    let hasher = hasher(PasswordSettings { concurrent_max: 1, waiting_max: 1, ..PasswordSettings::cheap_for_tests() });
    let (release, held) = std::sync::mpsc::channel::<()>();
    let running = hasher.run(move || held.recv().is_ok());
    let waiting = hasher.verify("x", None);
    let (mut running, mut waiting) = (Box::pin(running), Box::pin(waiting));
    assert!(polled(&mut running).await.is_pending());
    assert!(polled(&mut waiting).await.is_pending());
    assert!(matches!(soon(hasher.verify("x", None)).await, Err(PasswordError::Busy)));
    release.send(()).unwrap();
    assert!(soon(running).await.unwrap());
    assert_eq!(soon(waiting).await.unwrap(), PasswordVerdict::Wrong);
    assert_eq!(soon(hasher.verify("x", None)).await.unwrap(), PasswordVerdict::Wrong, "there is room again");
}

#[tokio::test]
async fn work_of_a_caller_that_hung_up_keeps_its_place() {
    let hasher = hasher(PasswordSettings { concurrent_max: 1, waiting_max: 0, ..PasswordSettings::cheap_for_tests() });
    let (release, held) = std::sync::mpsc::channel::<()>();
    let mut running = Box::pin(hasher.run(move || held.recv().is_ok()));
    assert!(polled(&mut running).await.is_pending());
    drop(running);
    assert!(matches!(soon(hasher.verify("x", None)).await, Err(PasswordError::Busy)));
    release.send(()).unwrap();
    drop(soon(hasher.running.acquire()).await);
}

#[tokio::test]
async fn the_async_thread_is_not_blocked() {
    let hasher = cheap();
    let (release, held) = std::sync::mpsc::channel::<()>();
    // One thread runs this test: if the work ran on it, nobody could release it.
    let (ended, ()) = tokio::join!(hasher.run(move || held.recv().is_ok()), async { release.send(()).unwrap() });
    assert!(ended.unwrap());
}

#[test]
fn impossible_settings_are_refused() {
    let cheap = PasswordSettings::cheap_for_tests;
    for settings in [
        PasswordSettings { memory_kib: 7, ..cheap() },
        PasswordSettings { memory_kib: PASSWORD_HASH_MEMORY_KIB_MAX + 1, ..cheap() },
        PasswordSettings { iterations: 0, ..cheap() },
        PasswordSettings { iterations: PASSWORD_HASH_PASSES_MAX + 1, ..cheap() },
        PasswordSettings { concurrent_max: 0, ..cheap() },
        PasswordSettings { waiting_max: usize::MAX, ..cheap() },
    ] {
        assert!(PasswordHasher::new(&settings, Scope::new()).is_err(), "{settings:?}");
    }
    assert!(PasswordHasher::new(&PasswordSettings::default(), Scope::new()).is_ok());
}

async fn polled<F: Future>(future: &mut std::pin::Pin<Box<F>>) -> std::task::Poll<F::Output> {
    std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context))).await
}
