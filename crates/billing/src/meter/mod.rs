//! From facts to billed time. A host reports facts about a sandbox: perhaps twice, perhaps out of
//! order, perhaps with a clock that was set back. [`fold_usage`] turns them into intervals, and
//! [`split_by`] cuts intervals at the edges of the calendar. Integers of nanoseconds throughout.

mod facts;
mod fold;
#[cfg(test)]
mod tests;
mod totals;

pub use facts::{BadFactKind, FactKind, StorageFact, UsageFact};
pub use fold::{fold_storage, fold_usage};
pub use totals::{UsageInterval, UsageTotals, WholeUnits, split_by};
