//! The time in which a certificate is valid, read from its DER form. Reads only the fields before
//! it, and trusts no length.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The optional version of a certificate, tagged `[0]`.
const VERSION: u8 = 0xa0;

/// The first and the last second in which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub from: SystemTime,
    pub to: SystemTime,
}

impl Validity {
    /// Reads the validity of a certificate. `None` if it is no X.509 certificate.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let (whole, _) = expect(certificate, SEQUENCE)?;
        let (signed, _) = expect(whole, SEQUENCE)?;
        let after_version = match element(signed)? {
            (VERSION, _, rest) => rest,
            _ => signed,
        };
        let (_, rest) = expect(after_version, INTEGER)?;
        let (_algorithm, rest) = expect(rest, SEQUENCE)?;
        let (_issuer, rest) = expect(rest, SEQUENCE)?;
        let (validity, _) = expect(rest, SEQUENCE)?;
        let (from, rest) = time(validity)?;
        let (to, _) = time(rest)?;
        Some(Self { from, to })
    }

    /// How long the certificate is valid in total.
    pub fn life(&self) -> Duration {
        self.to.duration_since(self.from).unwrap_or_default()
    }

    /// The day of the end.
    pub fn last_day(&self) -> String {
        let days = self.to.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
        let (year, month, day) = civil(days);
        format!("{year}-{month:02}-{day:02}")
    }
}

/// Splits the first element off: tag, contents, rest.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((tag, contents, rest))
}

fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    element(bytes).filter(|(found, ..)| *found == tag).map(|(_, contents, rest)| (contents, rest))
}

/// Reads a time in UTC with seconds, the only form that certificates may have (RFC 5280).
fn time(bytes: &[u8]) -> Option<(SystemTime, &[u8])> {
    let (tag, text, rest) = element(bytes)?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, text) = match (tag, text.len()) {
        (UTC_TIME, 12) => {
            let year: u64 = text[..2].parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &text[2..])
        }
        (GENERALIZED_TIME, 14) => (text[..4].parse().ok()?, &text[4..]),
        _ => return None,
    };
    let pair = |at: usize| text[at..at + 2].parse::<u64>().ok();
    let (month, day, hour, minute, second) = (pair(0)?, pair(2)?, pair(4)?, pair(6)?, pair(8)?);
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60
    {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some((UNIX_EPOCH + Duration::from_secs(seconds), rest))
}

/// Days from 1970-01-01 to a day of the Gregorian calendar. A year here begins in March, so that
/// the leap day is its last.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

/// The reverse of `days`.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn made(from: (i32, u8, u8), to: (i32, u8, u8)) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.not_before = date_time_ymd(from.0, from.1, from.2);
        params.not_after = date_time_ymd(to.0, to.1, to.2);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn both_forms_of_a_time_are_read() {
        let validity = Validity::of(&made((2024, 2, 29), (2062, 12, 31))).unwrap();
        let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert_eq!((seconds(validity.from), seconds(validity.to)), (1_709_164_800, 2_934_748_800));
        assert_eq!(validity.last_day().to_string(), "2062-12-31");
        assert_eq!(Validity::of(&made((2000, 1, 1), (2024, 2, 29))).unwrap().last_day().to_string(), "2024-02-29");
    }

    #[test]
    fn no_cut_and_no_changed_byte_is_more_than_an_error() {
        let whole = made((2024, 1, 1), (2030, 1, 1));
        let end = Validity::of(&whole).unwrap();
        for cut in 0..whole.len() {
            assert_eq!(Validity::of(&whole[..cut]), None);
        }
        for at in 0..whole.len().min(200) {
            for value in [0, 0x7f, 0x80, 0x84, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                // Any answer is fine, a panic is not.
                let _ = Validity::of(&changed).map(|validity| (validity.life(), validity.last_day().to_string()));
            }
        }
        assert_eq!(Validity::of(&whole), Some(end));
    }
}
