//! Splits Rust text into code and comments, line by line, so that a rule about code never matches a
//! string. Handles comments, strings, raw strings and character literals. Parses nothing else.

/// One line of a source file, split into code and comment. Strings are emptied.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SourceLine {
    pub code: String,
    pub comment: String,
}

/// Returns the lines of a source text, split into code and comment.
pub fn lines(text: &str) -> Vec<SourceLine> {
    let mut scrubber = Scrubber { rest: text, lines: vec![SourceLine::default()] };
    while !scrubber.rest.is_empty() {
        scrubber.one();
    }
    scrubber.lines
}

struct Scrubber<'a> {
    rest: &'a str,
    lines: Vec<SourceLine>,
}

impl Scrubber<'_> {
    /// Takes one token: a comment, a literal, a word or a single character.
    fn one(&mut self) {
        if self.rest.starts_with("//") {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.comment(end);
        } else if self.rest.starts_with("/*") {
            self.comment(block_comment(self.rest));
        } else if let Some(length) = raw_string(self.rest) {
            self.drop_literal(length);
        } else if self.rest.starts_with('"') {
            self.drop_literal(string(self.rest));
        } else if let Some(length) = character(self.rest) {
            self.drop_literal(length);
        } else {
            self.code(word(self.rest));
        }
    }

    fn code(&mut self, length: usize) {
        self.take(length, |line, part| line.code.push_str(part));
    }

    fn comment(&mut self, length: usize) {
        self.take(length, |line, part| line.comment.push_str(part));
    }

    fn drop_literal(&mut self, length: usize) {
        self.take(length, |_, _| {});
    }

    fn take(&mut self, length: usize, put: impl Fn(&mut SourceLine, &str)) {
        let (part, rest) = self.rest.split_at(length);
        self.rest = rest;
        for (at, piece) in part.split('\n').enumerate() {
            if at > 0 {
                self.lines.push(SourceLine::default());
            }
            put(self.lines.last_mut().expect("there is always a line"), piece);
        }
    }
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if text[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += first(&text[at..]);
        }
    }
    text.len()
}

/// Returns the length of a raw string, with any of the prefixes r, br and cr.
fn raw_string(text: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"]
        .into_iter()
        .find(|prefix| text.strip_prefix(prefix).is_some_and(|rest| rest.trim_start_matches('#').starts_with('"')))?;
    let hashes = text[prefix.len()..].bytes().take_while(|byte| *byte == b'#').count();
    let end = format!("\"{}", "#".repeat(hashes));
    let open = prefix.len() + hashes + 1;
    Some(text[open..].find(&end).map_or(text.len(), |at| open + at + end.len()))
}

fn string(text: &str) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text.as_bytes()[at] {
            b'\\' => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
            b'"' => return at + 1,
            _ => at += first(&text[at..]),
        }
    }
    text.len()
}

/// Returns the length of a character literal. `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('\'')?;
    let mut letters = inner.char_indices();
    let (_, letter) = letters.next()?;
    if letter == '\\' {
        letters.next()?;
        return letters.find(|(_, letter)| *letter == '\'').map(|(at, _)| at + 2);
    }
    letters.next().filter(|(_, letter)| *letter == '\'').map(|(at, _)| at + 2)
}

/// Returns the length of a whole word, or of one other character, so that a prefix such as `r` is
/// not found at the end of an identifier.
fn word(text: &str) -> usize {
    let length: usize =
        text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').map(char::len_utf8).sum();
    length.max(first(text)).max(1)
}

fn first(text: &str) -> usize {
    text.chars().next().map_or(1, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, code: &str, comment: &str) {
        let found = lines(text);
        let join = |part: fn(&SourceLine) -> &str| found.iter().map(part).collect::<Vec<_>>().join("\n");
        assert_eq!(join(|line| &line.code), code, "code of {text:?}");
        assert_eq!(join(|line| &line.comment), comment, "comments of {text:?}");
    }

    #[test]
    fn comments_leave_the_code() {
        check("a // b\nc", "a \nc", "// b\n");
        check("a /* b /* c */ d */ e", "a  e", "/* b /* c */ d */");
        check("a /* b\nc */ d", "a \n d", "/* b\nc */");
    }

    #[test]
    fn strings_are_emptied() {
        check(r#"f("a // b \" c") + 1"#, "f() + 1", "");
        check(r##"f(r#"a " b"#) + 1"##, "f() + 1", "");
        check("f(b\"x\ny\")", "f(b\n)", "\n");
        check("f(\"é\\é\")", "f()", "");
    }

    #[test]
    fn characters_are_not_lifetimes() {
        check(r"('a', '\'', '\u{1F}', '/')", "(, , , )", "");
        check("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}", "");
    }

    #[test]
    fn unfinished_text_ends() {
        for text in ["\"abc", "/* abc", "r#\"abc", "'", "'\\", "\"\\", "b'"] {
            lines(text);
        }
    }
}
