//! Words, quotes and variables of Dockerfiles.

use super::InstructionProblem;
use crate::limits::DOCKERFILE_EXPANDED_BYTES_MAX;

/// Splits at blanks outside quotes. Keeps quotes and escapes.
pub fn split(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let (mut quote, mut escaped) = (None, false);
    for c in text.chars() {
        let blank = quote.is_none() && !escaped && c.is_whitespace();
        if blank {
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            continue;
        }
        word.push(c);
        (quote, escaped) = match (quote, c) {
            (quote, _) if escaped => (quote, false),
            (Some('\''), '\'') => (None, false),
            (Some('\''), _) => (Some('\''), false),
            (quote, '\\') => (quote, true),
            (Some(open), c) if c == open => (None, false),
            (None, '"' | '\'') => (Some(c), false),
            (quote, _) => (quote, false),
        };
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Finds the value of a variable.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<&'a str>;

/// Replaces variables in the texts of one Dockerfile. All texts share one byte budget, checked
/// before each copy: a few short lines could otherwise expand to gigabytes.
#[derive(Debug)]
pub struct Expander {
    left: usize,
}

impl Default for Expander {
    fn default() -> Self {
        Self { left: DOCKERFILE_EXPANDED_BYTES_MAX }
    }
}

impl Expander {
    /// Removes quotes and escapes and replaces variables.
    pub fn expand(&mut self, text: &str, value: Lookup<'_>) -> Result<String, InstructionProblem> {
        self.run(text, value, Quotes::Removed)
    }

    /// Replaces variables and keeps quotes, as in a here-document.
    pub fn expand_raw(&mut self, text: &str, value: Lookup<'_>) -> Result<String, InstructionProblem> {
        self.run(text, value, Quotes::Kept)
    }

    /// Bytes of text produced so far.
    pub fn spent(&self) -> usize {
        DOCKERFILE_EXPANDED_BYTES_MAX - self.left
    }

    fn run(&mut self, text: &str, value: Lookup<'_>, quotes: Quotes) -> Result<String, InstructionProblem> {
        let mut expansion = Expansion { left: &mut self.left, out: String::new(), value, quotes };
        expansion.text(text, 0)?;
        Ok(expansion.out)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    Removed,
    Kept,
}

/// The expansion of one text.
struct Expansion<'l, 'v> {
    left: &'l mut usize,
    out: String,
    value: Lookup<'v>,
    quotes: Quotes,
}

/// Most levels of variables inside defaults.
const DEPTH_MAX: usize = 8;

impl Expansion<'_, '_> {
    fn text(&mut self, text: &str, depth: usize) -> Result<(), InstructionProblem> {
        if depth > DEPTH_MAX {
            return Err("variables are nested too deeply".into());
        }
        let mut rest = text;
        let mut quote = None;
        while let Some(c) = take_char(&mut rest) {
            match (quote, c) {
                (Some('\''), '\'') | (Some('"'), '"') => quote = None,
                (Some('\''), c) => self.push(c)?,
                (None, '\'' | '"') if self.quotes == Quotes::Removed => quote = Some(c),
                (_, '\\') => self.escape(&mut rest, quote.is_some())?,
                (_, '$') => self.variable(&mut rest, depth)?,
                (_, c) => self.push(c)?,
            }
        }
        match quote {
            Some(quote) => Err(format!("a {quote} is not closed").into()),
            None => Ok(()),
        }
    }

    /// Adds text, if the budget of the file allows it.
    fn add(&mut self, text: &str) -> Result<(), InstructionProblem> {
        *self.left = self.left.checked_sub(text.len()).ok_or_else(InstructionProblem::too_large)?;
        self.out.push_str(text);
        Ok(())
    }

    fn push(&mut self, c: char) -> Result<(), InstructionProblem> {
        self.add(c.encode_utf8(&mut [0; 4]))
    }

    fn escape(&mut self, rest: &mut &str, quoted: bool) -> Result<(), InstructionProblem> {
        let special = |c: char| match (self.quotes, quoted) {
            (Quotes::Kept, _) => c == '$' || c == '\\',
            (Quotes::Removed, true) => matches!(c, '$' | '\\' | '"'),
            (Quotes::Removed, false) => true,
        };
        match rest.chars().next() {
            Some(c) if special(c) => {
                *rest = &rest[c.len_utf8()..];
                self.push(c)
            }
            _ => self.push('\\'),
        }
    }

    /// Reads a variable after its dollar sign.
    fn variable(&mut self, rest: &mut &str, depth: usize) -> Result<(), InstructionProblem> {
        let Some(inside) = rest.strip_prefix('{') else {
            return match take_name(rest) {
                "" => self.push('$'),
                name => self.add((self.value)(name).unwrap_or_default()),
            };
        };
        let mut open = 1_usize;
        for (at, c) in inside.char_indices() {
            match c {
                '{' => open += 1,
                '}' => open -= 1,
                _ => {}
            }
            if open == 0 {
                *rest = &inside[at + 1..];
                return self.braced(&inside[..at], depth);
            }
        }
        Err("a ${ is not closed".into())
    }

    /// Reads the inside of `${…}`.
    fn braced(&mut self, inside: &str, depth: usize) -> Result<(), InstructionProblem> {
        let mut rest = inside;
        let name = take_name(&mut rest);
        if name.is_empty() {
            return Err("a ${} contains no variable name".into());
        }
        let value = (self.value)(name);
        let filled = value.filter(|value| !value.is_empty());
        // The word after `-` replaces a missing value. The word after `+` replaces an existing one.
        let (value, default, replacement) = match (rest.get(..1), rest.get(..2)) {
            _ if rest.is_empty() => (value, None, None),
            (_, Some(":-")) => (filled, Some(&rest[2..]), None),
            (_, Some(":+")) => (filled, None, Some(&rest[2..])),
            (Some("-"), _) => (value, Some(&rest[1..]), None),
            (Some("+"), _) => (value, None, Some(&rest[1..])),
            _ => {
                let shown: String = inside.chars().take(80).collect();
                let text = format!("${{{shown}}} is not supported; use ${{NAME:-word}} or ${{NAME:+word}}");
                return Err(text.into());
            }
        };
        match (value, default, replacement) {
            (Some(_), _, Some(word)) | (None, Some(word), _) => self.text(word, depth + 1),
            (Some(value), _, None) => self.add(value),
            (None, None, _) => Ok(()),
        }
    }
}

fn take_char(rest: &mut &str) -> Option<char> {
    let c = rest.chars().next()?;
    *rest = &rest[c.len_utf8()..];
    Some(c)
}

fn take_name<'t>(rest: &mut &'t str) -> &'t str {
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    *rest = after;
    name
}
