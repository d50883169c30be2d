//! Times in the format of the API. Reads no clock: callers pass the time.

/// Writes nanoseconds since the Unix epoch as RFC 3339 UTC with milliseconds and `Z`.
pub fn rfc3339(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let millis = unix_ns / 1_000_000 % 1000;
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Turns days since 1970-01-01 into a date, counting in eras of 400 years that start on 1
/// March 0000.
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

/// Reads RFC 3339 as nanoseconds since the Unix epoch, rounded down. `None` for invalid text and
/// for times before the epoch.
pub fn parse_rfc3339(text: &str) -> Option<u64> {
    let (date, clock) = text.split_at_checked(10)?;
    let clock = clock.strip_prefix(['T', 't', ' '])?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let end = clock.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = clock.split_at(end);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    let valid = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    if !valid || fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanos: u64 = format!("{fraction:0<9.9}").parse().ok()?;
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let [hours, minutes] = numbers(zone.get(1..)?, ':', [2, 2])?;
            let seconds = i64::try_from(hours * 3600 + minutes * 60).ok()?;
            if zone.starts_with('-') { -seconds } else { seconds }
        }
    };
    let days = days(year, month, day)?;
    let seconds = i64::try_from(days * 86_400 + hour * 3600 + minute * 60 + second).ok()?.checked_sub(offset)?;
    u64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// Reads numbers with exactly the given digit counts.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[u64; N]> {
    let mut parts = text.split(between);
    let mut found = [0; N];
    for (number, digits) in found.iter_mut().zip(digits) {
        let part =
            parts.next().filter(|part| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

/// Counts the days from 1970-01-01 to a date. The inverse of `civil`.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = year.checked_sub(u64::from(month <= 2))?;
    let (era, year_of_era) = (year / 400, year % 400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seconds: u64, expected: &str) {
        assert_eq!(rfc3339(seconds * 1_000_000_000), expected);
    }

    #[test]
    fn what_is_written_can_be_read() {
        for seconds in (0..4_000_000_000_u64).step_by(86_399_999) {
            let ns = seconds * 1_000_000_000 + 123_000_000;
            assert_eq!(parse_rfc3339(&rfc3339(ns)), Some(ns));
        }
        let same = ["2024-05-01T12:00:00Z", "2024-05-01t14:00:00.000+02:00", "2024-05-01 07:30:00-04:30"];
        for text in same {
            assert_eq!(parse_rfc3339(text), Some(1_714_564_800_000_000_000), "{text}");
        }
        assert_eq!(parse_rfc3339("1970-01-01T00:00:00.1234567891Z"), Some(123_456_789));
        for bad in [
            "",
            "now",
            "2024-05-01",
            "2024-05-01T12:00:00",
            "2024-13-01T12:00:00Z",
            "2024-05-01T25:00:00Z",
            "1969-12-31T23:59:59Z",
            "2024-05-01T12:00:00.Z",
            "2024-05-01T12:00:00+2",
            "2024-05-01T12:00:00+é",
            "20240501T120000Z",
            "éééééé",
        ] {
            assert_eq!(parse_rfc3339(bad), None, "{bad}");
        }
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
