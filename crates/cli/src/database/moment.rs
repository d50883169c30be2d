//! Times on the command line: RFC 3339, or how long ago.

use std::time::{Duration, SystemTime};

use pandastack_client::wire::{parse_rfc3339, rfc3339};

const EXPECTED: &str = "use a time such as 2026-01-31T23:59:59Z, -10m, -1h30m or \"10 minutes ago\"";

/// Reads a time and returns it as RFC 3339.
pub fn target_time(text: &str) -> Result<String, String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    at(text, now)
}

/// Reads a time. `now` is the time since 1970.
fn at(text: &str, now: Duration) -> Result<String, String> {
    let text = text.trim();
    if parse_rfc3339(text).is_some() {
        return Ok(text.to_owned());
    }
    let ago = text.strip_prefix('-').or_else(|| text.strip_suffix("ago")).and_then(span);
    let then = now.checked_sub(ago.ok_or(EXPECTED)?).ok_or("this time is before 1970")?;
    let nanos = u64::try_from(then.as_nanos()).map_err(|_| EXPECTED)?;
    Ok(rfc3339(nanos))
}

/// Reads numbers with units, such as `1h30m` or `10 minutes`, and adds them up.
fn span(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = None;
    while !rest.is_empty() {
        let (number, behind) = rest.split_at(rest.find(|letter: char| !letter.is_ascii_digit())?);
        let behind = behind.trim_start();
        let (unit, next) =
            behind.split_at(behind.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(behind.len()));
        let seconds = number.parse::<u64>().ok()?.checked_mul(seconds_of(unit)?)?;
        total = Some(total.unwrap_or(Duration::ZERO).checked_add(Duration::from_secs(seconds))?);
        rest = next.trim_start();
    }
    total
}

fn seconds_of(unit: &str) -> Option<u64> {
    Some(match unit {
        "s" | "sec" | "secs" | "second" | "seconds" => 1,
        "m" | "min" | "mins" | "minute" | "minutes" => 60,
        "h" | "hour" | "hours" => 3600,
        "d" | "day" | "days" => 86_400,
        "w" | "week" | "weeks" => 604_800,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let now = Duration::from_secs(1_700_000_000);
        assert_eq!(at(text, now).ok().as_deref(), expected, "{text}");
    }

    #[test]
    fn a_time_is_given_or_counted_back() {
        check("2026-01-31T23:59:59Z", Some("2026-01-31T23:59:59Z"));
        check(" 2026-01-31T23:59:59.5+02:00 ", Some("2026-01-31T23:59:59.5+02:00"));
        check("-10s", Some("2023-11-14T22:13:10.000Z"));
        check("-10m", Some("2023-11-14T22:03:20.000Z"));
        check("10 minutes ago", Some("2023-11-14T22:03:20.000Z"));
        check("10m ago", Some("2023-11-14T22:03:20.000Z"));
        check("-1h30m", Some("2023-11-14T20:43:20.000Z"));
        check("1 day 2 hours ago", Some("2023-11-13T20:13:20.000Z"));
        check("-1w", Some("2023-11-07T22:13:20.000Z"));
    }

    #[test]
    fn other_texts_are_refused() {
        let bad = ["", "-", "ago", "now", "10m", "-10", "-m", "-10x", "10 ago", "-5000w", "-1.5h", "2026-01-31", "-é"];
        bad.into_iter().for_each(|text| check(text, None));
        check("-99999999999999999999s", None);
        check("-18446744073709551615w", None);
        let error = target_time("yesterday").unwrap_err();
        assert!(error.contains("10 minutes ago"), "{error}");
    }
}
