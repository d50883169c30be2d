//! Sizes of disks on the command line.

/// Reads a size in mebibytes: a number, optionally followed by M or G.
pub fn mebibytes(text: &str) -> Result<i64, String> {
    let (number, factor) = match text.to_ascii_lowercase() {
        text if text.ends_with('g') => (text.trim_end_matches('g').to_owned(), 1024),
        text => (text.trim_end_matches('m').to_owned(), 1),
    };
    let number: i64 = number.parse().map_err(|_| "use a size such as 512, 512M or 2G".to_owned())?;
    number.checked_mul(factor).ok_or_else(|| "the size is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_mebibytes_unless_said_otherwise() {
        assert_eq!((mebibytes("512"), mebibytes("64m"), mebibytes("2G")), (Ok(512), Ok(64), Ok(2048)));
        for bad in ["", "G", "2T", "1.5G", "many", "9223372036854775807G"] {
            assert!(mebibytes(bad).is_err(), "{bad}");
        }
    }
}
