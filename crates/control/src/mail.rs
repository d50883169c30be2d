//! Letters that this server sends: the operator's settings, and how many letters one person can
//! cause. `app/letters.rs` writes the letters.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use pandastack_kit::Scope;
use pandastack_mail::{Letter, LetterError, Mailer, MailerError, SmtpSettings};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{LETTER_COUNTS_MAX, RESETS_AT_ONCE};

/// What the operator sets up for e-mail.
#[derive(Clone, Debug)]
pub struct MailSettings {
    pub smtp: SmtpSettings,
    /// Where this server is for people's browsers. Never the address of a request: a stranger could
    /// choose it, and so where the links of our letters lead.
    pub public_url: String,
}

/// The way to send letters. Clones are the same one.
#[derive(Clone)]
pub(crate) struct OutgoingMail {
    mailer: Mailer,
    base: Arc<str>,
    pub(crate) counts: Arc<LetterCounts>,
    resets: Arc<Semaphore>,
}

/// Returns a link to choose a new password. The secret is in the fragment (`#…`), because browsers
/// do not send that part to a server.
pub fn reset_link(base: &str, secret: &str) -> String {
    format!("{}/reset#{secret}", base.trim_end_matches('/'))
}

impl OutgoingMail {
    pub(crate) fn start(settings: MailSettings, scope: &Scope) -> Result<Self, MailerError> {
        Ok(Self {
            mailer: Mailer::start(settings.smtp, scope)?,
            base: settings.public_url.trim_end_matches('/').into(),
            counts: Arc::default(),
            resets: Arc::new(Semaphore::new(RESETS_AT_ONCE)),
        })
    }

    /// Returns the link of an invite, for people's browsers.
    pub(crate) fn invite_link(&self, secret: &str) -> String {
        format!("{}/invite/{secret}", self.base)
    }

    /// Returns a link to choose a new password.
    pub(crate) fn reset_link(&self, secret: &str) -> String {
        reset_link(&self.base, secret)
    }

    /// Returns where this server is for people's browsers.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Queues a letter. One that cannot be sent is only logged.
    pub(crate) fn send(&self, letter: Result<Letter, LetterError>) {
        match letter {
            // A full queue logs it.
            Ok(letter) => drop(self.mailer.send(letter)),
            Err(error) => tracing::warn!(%error, "could not write a letter"),
        }
    }

    /// Takes one of the places for requests for reset links. `None` if there are too many.
    pub(crate) fn reset_place(&self) -> Option<OwnedSemaphorePermit> {
        self.resets.clone().try_acquire_owned().ok()
    }
}

/// Letters that were caused lately, by the id of a user. In memory: a restart forgets them.
#[derive(Default)]
pub(crate) struct LetterCounts(Mutex<HashMap<String, LetterCount>>);

struct LetterCount {
    since_ns: u64,
    letters: u32,
}

/// How many letters one user can cause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LetterAllowance {
    pub(crate) letters: u32,
    pub(crate) within: Duration,
}

impl LetterCounts {
    /// Counts a letter. Returns false if it would be one too many.
    pub(crate) fn take(&self, key: String, allowance: LetterAllowance, now_ns: u64) -> bool {
        let is_over =
            |count: &LetterCount| u128::from(now_ns.saturating_sub(count.since_ns)) >= allowance.within.as_nanos();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= LETTER_COUNTS_MAX {
            counts.retain(|_, count| !is_over(count));
        }
        if counts.len() >= LETTER_COUNTS_MAX && !counts.contains_key(&key) {
            return false;
        }
        let count = counts.entry(key).or_insert(LetterCount { since_ns: now_ns, letters: 0 });
        if is_over(count) {
            *count = LetterCount { since_ns: now_ns, letters: 0 };
        }
        count.letters = count.letters.saturating_add(1);
        count.letters <= allowance.letters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWANCE: LetterAllowance = LetterAllowance { letters: 2, within: Duration::from_nanos(100) };

    #[test]
    fn everybody_has_an_allowance_and_gets_a_new_one() {
        let counts = LetterCounts::default();
        let take = |key: &str, now_ns| counts.take(key.to_owned(), ALLOWANCE, now_ns);
        assert!(take("ada", 0) && take("ada", 1) && !take("ada", 2) && !take("ada", 99));
        assert!(take("bob", 99));
        assert!(take("ada", 100) && take("ada", 150) && !take("ada", 199));
    }

    #[test]
    fn only_so_many_counts_are_kept() {
        let counts = LetterCounts::default();
        for number in 0..LETTER_COUNTS_MAX {
            assert!(counts.take(number.to_string(), ALLOWANCE, 0));
        }
        assert!(!counts.take("one more".to_owned(), ALLOWANCE, 99));
        assert!(counts.take("0".to_owned(), ALLOWANCE, 99), "those that are known still have theirs");
        assert!(counts.take("one more".to_owned(), ALLOWANCE, 100));
        assert_eq!(counts.0.lock().unwrap().len(), 1);
    }
}
