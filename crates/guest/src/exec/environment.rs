//! The machine-wide variables of `/etc/environment`, which a template sets for every program. Read
//! for each start, so that changes apply to the next one. Malformed lines are skipped, as at a
//! login.

use std::{fs::File, io::Read};

const FILE: &str = "/etc/environment";
const BYTES_MAX: u64 = 64 * 1024;

/// Reads the machine-wide variables. A missing file means none.
pub(super) fn read() -> Vec<(String, String)> {
    let mut text = Vec::new();
    match File::open(FILE).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut text)) {
        Ok(_) => parse(&String::from_utf8_lossy(&text)),
        Err(_) => Vec::new(),
    }
}

fn parse(text: &str) -> Vec<(String, String)> {
    text.lines().filter_map(variable).collect()
}

/// Parses `NAME=value`, with or without `export` and quotes. Nothing is expanded.
fn variable(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    let (name, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
    let name = name.trim();
    let of_a_name = |(at, c): (usize, char)| c == '_' || c.is_ascii_alphabetic() || (at > 0 && c.is_ascii_digit());
    if name.is_empty() || !name.chars().enumerate().all(of_a_name) || value.contains('\0') {
        return None;
    }
    let unquoted = |quote: char| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    Some((name.to_owned(), unquoted('"').or_else(|| unquoted('\'')).unwrap_or(value).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_and_nonsense_is_left_out() {
        let text = "# set by the template\nA=1\nexport B=\"two words\"\nC='x=y'\n D =\n2E=3\nnothing\nF=\"open\n";
        let pairs = [("A", "1"), ("B", "two words"), ("C", "x=y"), ("D", ""), ("F", "\"open")];
        assert_eq!(parse(text), pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
