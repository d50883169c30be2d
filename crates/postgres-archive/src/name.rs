//! Names of what is archived: files of the write-ahead log, base backups, databases. Parses what
//! guests and stores send; anything else is refused.

use std::{fmt, str::FromStr};

/// Bytes of one segment. The template never changes PostgreSQL's default.
pub const SEGMENT_BYTES: u64 = 16 * 1024 * 1024;
const SEGMENTS_PER_LOG: u64 = 0x1_0000_0000 / SEGMENT_BYTES;

/// A text that names nothing in an archive.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{text:?} is no name of {kind}")]
pub struct NameError {
    pub text: String,
    pub kind: &'static str,
}

/// One segment of the log: a timeline and a number that counts from the start of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment {
    pub timeline: u32,
    pub number: u64,
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (log, part) = (self.number / SEGMENTS_PER_LOG, self.number % SEGMENTS_PER_LOG);
        write!(f, "{:08X}{log:08X}{part:08X}", self.timeline)
    }
}

/// A file of the write-ahead log that PostgreSQL archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WalName {
    Segment(Segment),
    /// The last, unfinished segment of a timeline that ended.
    Partial(Segment),
    /// The note about a base backup: its first segment and the offset there.
    Backup(Segment, u32),
    /// Where a timeline left its parents.
    History(u32),
}

impl WalName {
    /// Returns the segment that the file is or belongs to.
    pub fn segment(self) -> Option<Segment> {
        match self {
            Self::Segment(segment) | Self::Partial(segment) | Self::Backup(segment, _) => Some(segment),
            Self::History(_) => None,
        }
    }
}

impl fmt::Display for WalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segment(segment) => write!(f, "{segment}"),
            Self::Partial(segment) => write!(f, "{segment}.partial"),
            Self::Backup(segment, offset) => write!(f, "{segment}.{offset:08X}.backup"),
            Self::History(timeline) => write!(f, "{timeline:08X}.history"),
        }
    }
}

impl FromStr for WalName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        parse_wal(text).ok_or_else(|| NameError { text: shortened(text), kind: "a file of the write-ahead log" })
    }
}

fn parse_wal(text: &str) -> Option<WalName> {
    let (stem, rest) = text.split_once('.').unwrap_or((text, ""));
    if stem.len() == 8 && rest == "history" {
        return hex8(stem).filter(|timeline| *timeline > 0).map(WalName::History);
    }
    let segment = parse_segment(stem)?;
    match rest {
        "" if stem.len() == text.len() => Some(WalName::Segment(segment)),
        "partial" => Some(WalName::Partial(segment)),
        _ => Some(WalName::Backup(segment, hex8(rest.strip_suffix(".backup")?)?)),
    }
}

fn parse_segment(text: &str) -> Option<Segment> {
    if text.len() != 24 || !text.is_ascii() {
        return None;
    }
    let (timeline, log, part) = (hex8(&text[..8])?, hex8(&text[8..16])?, u64::from(hex8(&text[16..])?));
    (timeline > 0 && part < SEGMENTS_PER_LOG)
        .then(|| Segment { timeline, number: u64::from(log) * SEGMENTS_PER_LOG + part })
}

/// Eight upper-case hexadecimal digits, as PostgreSQL writes them.
fn hex8(text: &str) -> Option<u32> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte);
    (text.len() == 8 && text.bytes().all(is_digit)).then(|| u32::from_str_radix(text, 16).ok()).flatten()
}

/// A position in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Returns the number of the segment with the byte at this position.
    pub fn segment_number(self) -> u64 {
        self.0 / SEGMENT_BYTES
    }

    /// Returns the number of the segment with the byte before this position.
    pub fn last_segment_number(self) -> u64 {
        self.0.saturating_sub(1) / SEGMENT_BYTES
    }
}

impl FromStr for Lsn {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let part = |text: &str| u32::from_str_radix(text, 16).ok().map(u64::from);
        let parsed = text.split_once('/').and_then(|(high, low)| Some(part(high)? << 32 | part(low)?));
        parsed.map(Lsn).ok_or_else(|| NameError { text: shortened(text), kind: "a position in the log" })
    }
}

/// The name of a base backup, `base-<UTC yyyymmddThhmmssZ>.tar.gz`. Later ones compare greater.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BaseName(String);

impl BaseName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for BaseName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let stamp = text.strip_prefix("base-").and_then(|rest| rest.strip_suffix(".tar.gz"));
        match stamp {
            Some(stamp) if is_stamp(stamp.as_bytes()) => Ok(Self(text.to_owned())),
            _ => Err(NameError { text: shortened(text), kind: "a base backup" }),
        }
    }
}

fn is_stamp(stamp: &[u8]) -> bool {
    stamp.len() == 16
        && stamp.iter().enumerate().all(|(at, byte)| match at {
            8 => *byte == b'T',
            15 => *byte == b'Z',
            _ => byte.is_ascii_digit(),
        })
}

/// Checks the name of an archive, which becomes a folder: a database's id or a base's key.
pub fn checked_id(text: &str) -> Result<&str, NameError> {
    let starts = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let fits = text.len() <= 128 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if starts && fits { Ok(text) } else { Err(NameError { text: shortened(text), kind: "an archive" }) }
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_the_log_read_and_print() {
        for text in [
            "000000010000000000000002",
            "0000000A00000001000000FF",
            "000000010000000000000002.partial",
            "000000010000000000000002.00000028.backup",
            "00000002.history",
        ] {
            assert_eq!(text.parse::<WalName>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "x",
            "00000001000000000000000g",
            "000000010000000000000100",
            "00000001000000000000000a",
            "000000000000000000000001",
            "000000010000000000000002.",
            "000000010000000000000002.backup",
            "../00000002.history",
            "00000002.history/",
            "+0000001.history",
        ] {
            assert!(text.parse::<WalName>().is_err(), "{text}");
        }
        let last = "0000000100000000000000FF".parse::<WalName>().unwrap().segment().unwrap();
        let next = "000000010000000100000000".parse::<WalName>().unwrap().segment().unwrap();
        assert_eq!(last.number + 1, next.number);
    }

    #[test]
    fn names_of_bases_and_archives() {
        assert!("base-20260131T235959Z.tar.gz".parse::<BaseName>().is_ok());
        for text in ["base-20260131T235959.tar.gz", "base-x.tar.gz", "base-20260131T235959Z.tar", "base-.tar.gz"] {
            assert!(text.parse::<BaseName>().is_err(), "{text}");
        }
        assert!(checked_id("db_7k-2").is_ok());
        for text in ["", "..", "a/b", "_a", "a b", "ä", &"a".repeat(129)] {
            assert!(checked_id(text).is_err(), "{text}");
        }
        assert_eq!("1/2000028".parse::<Lsn>().unwrap(), Lsn(0x1_0200_0028));
        assert_eq!((Lsn(SEGMENT_BYTES).segment_number(), Lsn(SEGMENT_BYTES).last_segment_number()), (1, 0));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            if let Ok(name) = text.parse::<WalName>() {
                prop_assert_eq!(name.to_string(), text.clone());
            }
            let _ = (text.parse::<BaseName>(), text.parse::<Lsn>(), checked_id(&text).is_ok());
        }
    }
}
