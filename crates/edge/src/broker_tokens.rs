//! Calls with wrong broker tokens: how many of one database are looked up. A token that was right
//! is let through, so strangers do not stop the clients of a database. Decides nothing else:
//! control checks every token.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
};

use pandastack_model::{Fault, FaultKind, SandboxId};
use tokio::time::Instant;

use crate::limits::{BROKER_DATABASES_MAX, BROKER_WRONG_TOKENS_AT_ONCE, BROKER_WRONG_TOKENS_PER_SECOND};

/// What control said of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenVerdict {
    Right,
    Wrong,
}

/// The tokens of databases with recent calls.
#[derive(Default)]
pub struct BrokerTokens {
    databases: Mutex<HashMap<SandboxId, TokenRecord>>,
    hasher: RandomState,
}

struct TokenRecord {
    /// Hash of the token that was right last. Another token with the same hash gains a look-up.
    right: Option<u64>,
    /// Wrong tokens that may still be looked up, as of `at`.
    left: f64,
    at: Instant,
}

impl BrokerTokens {
    /// Refuses a token that need not be looked up: too many of the database were wrong just now.
    pub fn check(&self, database: SandboxId, token: &str) -> Result<(), Fault> {
        let databases = self.databases();
        let Some(record) = databases.get(&database) else { return Ok(()) };
        if record.right == Some(self.hasher.hash_one(token)) || record.left_at(Instant::now()) >= 1.0 {
            return Ok(());
        }
        let text = "too many calls with a wrong token of this database; check the broker token, then try again";
        Err(Fault::new(FaultKind::TooFast, "rate.limited", text))
    }

    /// Records a verdict on a token of a database that exists.
    pub fn note(&self, database: SandboxId, token: &str, verdict: TokenVerdict) {
        let (now, hash) = (Instant::now(), self.hasher.hash_one(token));
        let mut databases = self.databases();
        if databases.len() >= BROKER_DATABASES_MAX && !databases.contains_key(&database) {
            let quietest = databases.iter().min_by_key(|(_, record)| record.at).map(|(id, _)| *id);
            quietest.and_then(|id| databases.remove(&id));
        }
        let all = f64::from(BROKER_WRONG_TOKENS_AT_ONCE);
        let record = databases.entry(database).or_insert(TokenRecord { right: None, left: all, at: now });
        (record.left, record.at) = (record.left_at(now), now);
        match verdict {
            TokenVerdict::Right => record.right = Some(hash),
            TokenVerdict::Wrong => record.left = (record.left - 1.0).max(0.0),
        }
    }

    fn databases(&self) -> MutexGuard<'_, HashMap<SandboxId, TokenRecord>> {
        self.databases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenRecord {
    fn left_at(&self, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        let left = self.left + seconds * f64::from(BROKER_WRONG_TOKENS_PER_SECOND);
        left.min(f64::from(BROKER_WRONG_TOKENS_AT_ONCE))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    /// Sends calls with a wrong token and returns how many were looked up.
    fn looked_up(tokens: &BrokerTokens, database: SandboxId, calls: u32) -> u32 {
        let mut count = 0;
        for call in 0..calls {
            let token = format!("pds_pg_wrong{call}");
            if tokens.check(database, &token).is_ok() {
                tokens.note(database, &token, TokenVerdict::Wrong);
                count += 1;
            }
        }
        count
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_tokens_are_limited_and_the_right_one_is_not() {
        let (tokens, [a, b]) = (BrokerTokens::default(), [(); 2].map(|()| SandboxId::random()));
        tokens.note(a, "pds_pg_right", TokenVerdict::Right);
        assert_eq!(looked_up(&tokens, a, 1000), BROKER_WRONG_TOKENS_AT_ONCE);
        let fault = tokens.check(a, "pds_pg_new").unwrap_err();
        assert_eq!((fault.kind, fault.code), (FaultKind::TooFast, "rate.limited"));
        assert!(tokens.check(a, "pds_pg_right").is_ok());
        assert_eq!(looked_up(&tokens, b, 1000), BROKER_WRONG_TOKENS_AT_ONCE, "each database by itself");
        advance(Duration::from_secs(1)).await;
        assert_eq!(looked_up(&tokens, a, 1000), BROKER_WRONG_TOKENS_PER_SECOND);
        advance(Duration::from_secs(1)).await;
        // New credentials: the old token is one of the wrong ones.
        tokens.note(a, "pds_pg_new", TokenVerdict::Right);
        looked_up(&tokens, a, 1000);
        assert!(tokens.check(a, "pds_pg_new").is_ok() && tokens.check(a, "pds_pg_right").is_err());
        advance(Duration::from_secs(3600)).await;
        assert_eq!(looked_up(&tokens, a, 1000), BROKER_WRONG_TOKENS_AT_ONCE, "a rest fills it, but not over");
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_databases_are_remembered() {
        let (tokens, first) = (BrokerTokens::default(), SandboxId::random());
        tokens.note(first, "pds_pg_right", TokenVerdict::Right);
        for _ in 0..BROKER_DATABASES_MAX + 10 {
            advance(Duration::from_millis(1)).await;
            tokens.note(SandboxId::random(), "pds_pg_right", TokenVerdict::Right);
            tokens.note(first, "pds_pg_right", TokenVerdict::Right);
        }
        assert_eq!(tokens.databases().len(), BROKER_DATABASES_MAX);
        assert!(tokens.databases().contains_key(&first), "the quietest gives way");
    }
}
