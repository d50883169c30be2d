//! How workspaces share limited resources: connections, sockets, memory. A workspace may hold at
//! most three quarters of what the others leave free. So a workspace that is alone gets most of the
//! host, and a remainder is always free for the next one.

use std::{collections::HashMap, hash::Hash};

/// Three quarters, as a fraction.
const PART: u64 = 3;
const OF: u64 = 4;

/// The holder of a share: the workspace that owns a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub String);

/// Why a request for more is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareRefusal {
    /// The holder has reached its share.
    Share {
        held: u64,
        /// Most that it may hold now.
        most: u64,
    },
    /// All holders together hold the total.
    Full { total: u64 },
}

/// Returns the most that one holder may have while the others hold `others`. It is at least one as
/// long as anything is free.
pub fn share(total: u64, others: u64) -> u64 {
    let left = total.saturating_sub(others);
    // Divides first, because the multiplication could overflow.
    let part = left / OF * PART + left % OF * PART / OF;
    if left == 0 { 0 } else { part.max(1) }
}

/// Decides whether a holder of `held` may have `more` of `total`, while others hold `others`.
pub fn admit_share(total: u64, others: u64, held: u64, more: u64) -> Result<(), ShareRefusal> {
    let wanted = held.saturating_add(more);
    if wanted.saturating_add(others) > total {
        // A holder that exceeds its share of an empty host must ask for less. Waiting would not
        // help.
        let most = share(total, others);
        return Err(if wanted > share(total, 0) {
            ShareRefusal::Share { held, most }
        } else {
            ShareRefusal::Full { total }
        });
    }
    let most = share(total, others);
    if wanted > most { Err(ShareRefusal::Share { held, most }) } else { Ok(()) }
}

/// Current holdings of one total.
#[derive(Clone, Debug)]
pub struct Shares<K> {
    held: HashMap<K, u64>,
    all: u64,
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self { held: HashMap::new(), all: 0 }
    }
}

impl<K: Clone + Eq + Hash> Shares<K> {
    /// Adds to a holder's amount, or returns why not.
    pub fn take(&mut self, holder: &K, more: u64, total: u64) -> Result<(), ShareRefusal> {
        let held = self.held(holder);
        admit_share(total, self.all - held, held, more)?;
        self.put(holder, more);
        Ok(())
    }

    /// Adds to a holder's amount without a check against its share.
    pub fn put(&mut self, holder: &K, more: u64) {
        if more > 0 {
            *self.held.entry(holder.clone()).or_default() += more;
            self.all += more;
        }
    }

    /// Reduces a holder's amount. Holders with nothing are removed.
    pub fn give_back(&mut self, holder: &K, less: u64) {
        let Some(held) = self.held.get_mut(holder) else { return };
        let less = less.min(*held);
        *held -= less;
        self.all -= less;
        if *held == 0 {
            self.held.remove(holder);
        }
    }

    /// Returns a holder's amount.
    pub fn held(&self, holder: &K) -> u64 {
        self.held.get(holder).copied().unwrap_or(0)
    }

    /// Returns the amount of all holders.
    pub fn all(&self) -> u64 {
        self.all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn who_is_alone_has_three_quarters_and_others_share_the_rest() {
        for (total, others, most) in [(0, 0, 0), (1, 0, 1), (2, 0, 1), (3, 0, 2), (4, 0, 3), (1024, 0, 768)] {
            assert_eq!(share(total, others), most, "{total} {others}");
        }
        assert_eq!(share(1024, 768), 192);
        assert_eq!((share(4, 3), share(4, 4), share(4, 5)), (1, 0, 0));
        assert_eq!(share(u64::MAX, 0), u64::MAX / 4 * 3 + 2);
    }

    #[test]
    fn a_refusal_tells_a_full_share_from_a_full_box() {
        let mut shares = Shares::default();
        shares.take(&"a", 3, 4).unwrap();
        assert_eq!(shares.take(&"a", 1, 4), Err(ShareRefusal::Share { held: 3, most: 3 }));
        shares.take(&"b", 1, 4).unwrap();
        assert_eq!(shares.take(&"c", 1, 4), Err(ShareRefusal::Full { total: 4 }));
        assert_eq!(shares.take(&"c", 4, 4), Err(ShareRefusal::Share { held: 0, most: 0 }), "no wait helps");
        shares.give_back(&"a", 1);
        shares.take(&"c", 1, 4).unwrap();
        for holder in ["a", "b", "c"] {
            shares.give_back(&holder, 9);
        }
        assert_eq!((shares.all(), shares.held.len()), (0, 0));
    }

    proptest! {
        #[test]
        fn whatever_one_holder_takes_another_still_gets_some(total in 2_u64..10_000, wishes in prop::collection::vec(1_u64..500, 1..50)) {
            let mut shares = Shares::default();
            for wish in wishes {
                let _ = shares.take(&"greedy", wish, total);
                prop_assert!(shares.all() <= total);
            }
            prop_assert!(shares.clone().take(&"other", 1, total).is_ok());
        }

        #[test]
        fn no_number_overflows(total: u64, others: u64, held: u64, more: u64) {
            let _ = admit_share(total, others, held, more);
            prop_assert!(share(total, others) <= total);
        }
    }
}
