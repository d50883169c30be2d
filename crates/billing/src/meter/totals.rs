//! Billed intervals and their sums, split at calendar edges without losing a nanosecond.

use std::{
    iter::Sum,
    ops::{Add, AddAssign},
};

use crate::calendar::{CalendarWindow, SECOND_NS};

/// A time in which the same amounts are billed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageInterval {
    /// Zero while paused.
    pub vcpus: u32,
    /// Zero while asleep.
    pub memory_mib: u64,
    pub storage_bytes: u64,
    pub from_ns: u64,
    /// First moment that is not billed. Later than `from_ns`.
    pub to_ns: u64,
}

impl UsageInterval {
    /// Returns what the interval sums up to.
    pub fn totals(&self) -> UsageTotals {
        let ns = u128::from(self.to_ns.saturating_sub(self.from_ns));
        UsageTotals {
            vcpu_ns: ns * u128::from(self.vcpus),
            memory_mib_ns: ns * u128::from(self.memory_mib),
            storage_byte_ns: ns * u128::from(self.storage_bytes),
        }
    }

    /// Returns the part before a moment. `None` if there is none.
    pub fn until(self, end_ns: u64) -> Option<Self> {
        let to_ns = self.to_ns.min(end_ns);
        (self.from_ns < to_ns).then_some(Self { to_ns, ..self })
    }

    /// Returns the part from a moment on. `None` if there is none.
    pub fn since(self, start_ns: u64) -> Option<Self> {
        let from_ns = self.from_ns.max(start_ns);
        (from_ns < self.to_ns).then_some(Self { from_ns, ..self })
    }
}

/// Sums of usage. An hour of a large workspace needs more than 64 bits of byte-nanoseconds: store
/// these numbers as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageTotals {
    pub vcpu_ns: u128,
    pub memory_mib_ns: u128,
    pub storage_byte_ns: u128,
}

impl UsageTotals {
    /// Whole seconds of one CPU, rounded down.
    pub const fn vcpu_seconds(&self) -> u128 {
        self.vcpu_ns / SECOND_NS as u128
    }

    /// Whole seconds of one GiB of memory, rounded down.
    pub const fn memory_gib_seconds(&self) -> u128 {
        self.memory_mib_ns / (1024 * SECOND_NS as u128)
    }

    /// Whole seconds of one GiB of storage, rounded down.
    pub const fn storage_gib_seconds(&self) -> u128 {
        self.storage_byte_ns / ((1 << 30) * SECOND_NS as u128)
    }
}

impl Add for UsageTotals {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            vcpu_ns: self.vcpu_ns.saturating_add(other.vcpu_ns),
            memory_mib_ns: self.memory_mib_ns.saturating_add(other.memory_mib_ns),
            storage_byte_ns: self.storage_byte_ns.saturating_add(other.storage_byte_ns),
        }
    }
}

impl AddAssign for UsageTotals {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for UsageTotals {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// Splits an interval at the edges of hours, days or months, and returns each part with its window.
/// The parts follow each other without a gap.
pub fn split_by<W: CalendarWindow>(interval: UsageInterval) -> impl Iterator<Item = (W, UsageInterval)> {
    let mut rest = Some(interval).filter(|interval| interval.from_ns < interval.to_ns);
    std::iter::from_fn(move || {
        let whole = rest.take()?;
        let window = W::of(whole.from_ns);
        rest = whole.since(window.end_ns());
        Some((window, whole.until(window.end_ns())?))
    })
}

/// Turns sums into whole units, window after window, and carries what is left over. The units taken
/// so far are always the whole units of everything fed so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeUnits {
    unit: u128,
    left: u128,
}

impl WholeUnits {
    /// Starts with nothing carried. A unit of zero counts as one.
    pub fn of(unit: u128) -> Self {
        Self::carrying(unit, 0)
    }

    /// Continues with what an earlier window left over.
    pub fn carrying(unit: u128, left: u128) -> Self {
        Self { unit: unit.max(1), left }
    }

    /// Adds an amount and takes out its whole units.
    pub fn take(&mut self, amount: u128) -> u128 {
        let all = self.left.saturating_add(amount);
        self.left = all % self.unit;
        all / self.unit
    }

    /// Returns what is left over for the next window.
    pub fn left(&self) -> u128 {
        self.left
    }
}
