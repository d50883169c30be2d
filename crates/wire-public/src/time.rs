//! Times as the API writes them. No clock here: the caller brings the number.

/// Writes nanoseconds since the Unix epoch as RFC 3339 UTC with milliseconds and `Z`.
pub fn rfc3339(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let millis = unix_ns / 1_000_000 % 1000;
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Turns days since 1970-01-01 into a date, counting in eras of 400 years that start on 1 March 0000.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seconds: u64, expected: &str) {
        assert_eq!(rfc3339(seconds * 1_000_000_000), expected);
    }

    #[test]
    fn known_dates_come_out_right() {
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_400, "2000-02-29T00:00:00.000Z");
        check(1_709_164_799, "2024-02-28T23:59:59.000Z");
        check(1_735_689_599, "2024-12-31T23:59:59.000Z");
        assert_eq!(rfc3339(1_700_000_000_123_456_789), "2023-11-14T22:13:20.123Z");
        assert_eq!(rfc3339(u64::MAX).len(), 24);
    }
}
