//! A size in bytes, so that MiB and bytes cannot be mixed up.

use std::fmt;

/// An amount of memory or disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct ByteSize(u64);

impl ByteSize {
    /// Wraps a plain number of bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Makes a size from mebibytes.
    pub const fn mib(mib: u64) -> Self {
        Self(mib * 1024 * 1024)
    }

    /// Makes a size from gibibytes.
    pub const fn gib(gib: u64) -> Self {
        Self::mib(gib * 1024)
    }

    /// Returns the number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns whole mebibytes, rounded down.
    pub const fn as_mib(self) -> u64 {
        self.0 / (1024 * 1024)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        if unit == 0 { write!(f, "{} B", self.0) } else { write!(f, "{value:.1} {}", UNITS[unit]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_in_the_largest_fitting_unit() {
        assert_eq!(ByteSize::new(17).to_string(), "17 B");
        assert_eq!(ByteSize::mib(256).to_string(), "256.0 MiB");
        assert_eq!(ByteSize::gib(3).to_string(), "3.0 GiB");
    }
}
