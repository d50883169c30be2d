//! Hours, days and months in UTC, as ranges of nanoseconds since the Unix epoch. Usage is split at
//! their edges. Knows no time zones and no leap seconds, as Unix time does not.

use std::{fmt, str::FromStr};

pub const SECOND_NS: u64 = 1_000_000_000;
pub const HOUR_NS: u64 = 3600 * SECOND_NS;
pub const DAY_NS: u64 = 24 * HOUR_NS;

/// A range of time that belongs to a calendar.
pub trait CalendarWindow: Copy + Ord {
    /// Returns the window that contains a moment.
    fn of(at_ns: u64) -> Self;
    /// First moment of the window.
    fn start_ns(self) -> u64;
    /// First moment after the window.
    fn end_ns(self) -> u64;
}

/// One hour. Meter events are posted by the hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UtcHour(u64);

/// One day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UtcDay(u64);

/// One month. Credit and included storage are granted by the month.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UtcMonth {
    year: u16,
    month: u8,
}

/// Text that is no month.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a month; write it as 2026-03")]
pub struct BadMonth(String);

impl UtcHour {
    /// Unix time of the window's first second. It names the window in identifiers and tables.
    pub fn start_s(self) -> u64 {
        self.0 * 3600
    }

    /// Returns the hour that starts at a Unix time. `None` if no hour starts there.
    pub fn starting_at(second: u64) -> Option<Self> {
        (second.is_multiple_of(3600) && second / 3600 <= u64::MAX / HOUR_NS).then_some(Self(second / 3600))
    }

    /// Unix time of the last second. An event with this time belongs to the same hour, day and
    /// month as the usage.
    pub fn last_s(self) -> u64 {
        self.start_s() + 3599
    }
}

impl UtcDay {
    /// Days since the Unix epoch. It names the window in tables.
    pub fn number(self) -> u64 {
        self.0
    }

    /// Returns the day with a number. `None` if its time does not fit.
    pub fn numbered(number: u64) -> Option<Self> {
        (number < u64::MAX / DAY_NS).then_some(Self(number))
    }
}

impl CalendarWindow for UtcHour {
    fn of(at_ns: u64) -> Self {
        Self(at_ns / HOUR_NS)
    }

    fn start_ns(self) -> u64 {
        self.0 * HOUR_NS
    }

    fn end_ns(self) -> u64 {
        self.start_ns().saturating_add(HOUR_NS)
    }
}

impl CalendarWindow for UtcDay {
    fn of(at_ns: u64) -> Self {
        Self(at_ns / DAY_NS)
    }

    fn start_ns(self) -> u64 {
        self.0 * DAY_NS
    }

    fn end_ns(self) -> u64 {
        self.start_ns().saturating_add(DAY_NS)
    }
}

impl CalendarWindow for UtcMonth {
    fn of(at_ns: u64) -> Self {
        let (year, month, _) = civil(at_ns / DAY_NS);
        Self { year, month }
    }

    fn start_ns(self) -> u64 {
        days_before(self.year, self.month).saturating_mul(DAY_NS)
    }

    fn end_ns(self) -> u64 {
        let (year, month) = if self.month == 12 { (self.year + 1, 1) } else { (self.year, self.month + 1) };
        days_before(year, month).saturating_mul(DAY_NS)
    }
}

impl UtcMonth {
    /// Length of the month: 28 to 31 days.
    pub fn length_ns(self) -> u64 {
        self.end_ns() - self.start_ns()
    }
}

/// Prints as `2026-03-09`.
impl fmt::Display for UtcDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.0);
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

/// Prints as `2026-03`.
impl fmt::Display for UtcMonth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

impl FromStr for UtcMonth {
    type Err = BadMonth;

    fn from_str(text: &str) -> Result<Self, BadMonth> {
        let bad = || BadMonth(text.chars().take(20).collect());
        let (year, month) = text.split_once('-').ok_or_else(bad)?;
        let digits = |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(year, 4) || !digits(month, 2) {
            return Err(bad());
        }
        let (year, month) = (year.parse().map_err(|_| bad())?, month.parse().map_err(|_| bad())?);
        // Later years do not fit into 64 bits of nanoseconds.
        let known = (1970..=2500).contains(&year) && (1..=12).contains(&month);
        known.then_some(Self { year, month }).ok_or_else(bad)
    }
}

/// Returns year, month and day of a day since the epoch. Years are counted from March, so that the
/// leap day is the last one.
fn civil(days: u64) -> (u16, u8, u8) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (u16::try_from(year).unwrap_or(u16::MAX), month as u8, day as u8)
}

/// Counts the days from the epoch to the first day of a month.
fn days_before(year: u16, month: u8) -> u64 {
    let (year, month) = (u64::from(year) - u64::from(month <= 2), u64::from(month));
    let (era, year_of_era) = (year / 400, year % 400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + (153 * shifted_month + 2) / 5;
    (era * 146_097 + day_of_era).saturating_sub(719_468)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2026-03-01T00:00:00Z, from `date -u -d 2026-03-01 +%s`.
    const MARCH_2026: u64 = 1_772_323_200 * SECOND_NS;

    #[test]
    fn months_have_their_calendar_length() {
        for (month, days, start_s) in [
            ("1970-01", 31, 0),
            ("2000-02", 29, 949_363_200),
            ("2024-02", 29, 1_706_745_600),
            ("2026-02", 28, 1_769_904_000),
            ("2026-12", 31, 1_796_083_200),
            ("2100-02", 28, 4_105_123_200),
        ] {
            let parsed: UtcMonth = month.parse().unwrap();
            assert_eq!((parsed.length_ns(), parsed.start_ns()), (days * DAY_NS, start_s * SECOND_NS), "{month}");
            assert_eq!(parsed.to_string(), month);
        }
    }

    #[test]
    fn edges_belong_to_the_window_that_starts_there() {
        assert_eq!(UtcMonth::of(MARCH_2026).to_string(), "2026-03");
        assert_eq!(UtcMonth::of(MARCH_2026 - 1).to_string(), "2026-02");
        assert_eq!(UtcDay::of(MARCH_2026).to_string(), "2026-03-01");
        assert_eq!(UtcDay::of(MARCH_2026 - 1).to_string(), "2026-02-28");
        let last = UtcHour::of(MARCH_2026 - 1);
        assert_eq!(last.last_s(), MARCH_2026 / SECOND_NS - 1, "the event stays in the month of its usage");
        assert_eq!(UtcHour::starting_at(last.start_s()), Some(last));
        assert_eq!(UtcHour::starting_at(last.start_s() + 1), None);
    }

    #[test]
    fn other_texts_are_no_months() {
        for bad in ["", "2026", "2026-3", "2026-13", "2026-00", "1969-12", "+026-01", "2026-03-01", "9999-01"] {
            assert!(bad.parse::<UtcMonth>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn every_moment_is_inside_its_windows(at_ns: u64) {
            fn check<W: CalendarWindow>(at_ns: u64) -> bool {
                let window = W::of(at_ns);
                // The last window that 64 bits can hold is cut off at their end.
                window.start_ns() <= at_ns && (at_ns < window.end_ns() || window.end_ns() == u64::MAX)
            }
            prop_assert!(check::<UtcHour>(at_ns) && check::<UtcDay>(at_ns) && check::<UtcMonth>(at_ns));
        }
    }
}
