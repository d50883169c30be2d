//! A sandbox's console as lines of text that end with LF, whatever line ends the guest uses.

use serde::{Deserialize, Serialize};

use crate::{TextTail, limits::LOG_LINE_BYTES_MAX};

/// One line of a console, as the data of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogLine {
    pub line: String,
}

/// Splits console output into lines, piece by piece. LF, CR and CR LF each end a line. A progress
/// bar that only writes CR therefore gives one line for each update.
#[derive(Debug, Default)]
pub struct LogLines {
    text: TextTail,
    open: String,
    /// The last character was a CR. A following CR or LF then ends no further line. A terminal
    /// turns a program's CR LF into CR CR LF.
    returned: bool,
}

impl LogLines {
    /// Takes the next bytes and returns the completed lines, without line ends.
    pub fn push(&mut self, piece: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for character in self.text.push(piece).chars() {
            match character {
                '\r' if self.returned => {}
                '\n' if self.returned => self.returned = false,
                '\n' | '\r' => {
                    self.returned = character == '\r';
                    lines.push(std::mem::take(&mut self.open));
                }
                other => {
                    self.returned = false;
                    self.open.push(other);
                    if self.open.len() >= LOG_LINE_BYTES_MAX {
                        lines.push(std::mem::take(&mut self.open));
                    }
                }
            }
        }
        lines
    }

    /// Returns the start of a line that has not ended yet, if there is one.
    pub fn rest(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.open) + &self.text.finish();
        (!rest.is_empty()).then_some(rest)
    }
}

/// Prepares a line for plain text: characters that one published client treats as a line end become
/// spaces.
pub fn plain_line(line: &str) -> String {
    let breaks = |c: char| matches!(c, '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    line.chars().map(|c| if breaks(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&[u8]], expected: &[&str], rest: Option<&str>) {
        let mut lines = LogLines::default();
        let got: Vec<String> = pieces.iter().flat_map(|piece| lines.push(piece)).collect();
        assert_eq!(got, expected);
        assert_eq!(lines.rest().as_deref(), rest);
        assert_eq!(lines.rest(), None);
    }

    #[test]
    fn every_line_end_ends_one_line() {
        check(&[b"a\r\nb\nc\rd"], &["a", "b", "c"], Some("d"));
        check(&[b"a\r", b"\nb\r", b"c\n\n"], &["a", "b", "c", ""], None);
        check(&[b"a\r\r\nb\r\n\r\nc"], &["a", "b", ""], Some("c"));
        check(&[b"10%\r20%\r30%\r\n"], &["10%", "20%", "30%"], None);
        check(&[b"\xc3", b"\xa9\n\xff\n\xe2"], &["é", "\u{fffd}"], Some("\u{fffd}"));
        check(&[b""], &[], None);
    }

    #[test]
    fn a_line_without_end_comes_in_pieces() {
        let mut lines = LogLines::default();
        let got = lines.push(&vec![b'x'; 2 * LOG_LINE_BYTES_MAX + 3]);
        assert_eq!(got.iter().map(String::len).collect::<Vec<_>>(), [LOG_LINE_BYTES_MAX; 2]);
        assert_eq!(lines.rest().as_deref(), Some("xxx"));
    }

    #[test]
    fn plain_text_has_one_kind_of_line_end() {
        let odd = "a\u{b}b\u{c}c\u{85}d\u{2028}e\u{2029}f\u{1e}é";
        assert_eq!(plain_line(odd), "a b c d e f é");
        assert_eq!(plain_line(odd).lines().count(), 1);
    }
}
