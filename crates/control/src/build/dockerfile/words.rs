//! Words, quotes and variables, as Dockerfiles have them.

use std::collections::BTreeMap;

/// Longest text that variables may grow to.
const EXPANDED_BYTES_MAX: usize = 1024 * 1024;

/// Splits at blanks outside quotes. Quotes and escapes stay.
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

/// Removes quotes and escapes and replaces variables.
pub fn expand(text: &str, env: &BTreeMap<String, String>) -> Result<String, String> {
    Expansion { env, quotes: Quotes::Removed, depth: 0 }.run(text)
}

/// Replaces variables and leaves quotes alone, as in a here-document.
pub fn expand_raw(text: &str, env: &BTreeMap<String, String>) -> Result<String, String> {
    Expansion { env, quotes: Quotes::Kept, depth: 0 }.run(text)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    Removed,
    Kept,
}

struct Expansion<'a> {
    env: &'a BTreeMap<String, String>,
    quotes: Quotes,
    depth: usize,
}

/// How deep defaults may hold further variables.
const DEPTH_MAX: usize = 8;

impl Expansion<'_> {
    fn run(&self, text: &str) -> Result<String, String> {
        if self.depth > DEPTH_MAX {
            return Err("variables are nested too deep".to_owned());
        }
        let mut out = String::new();
        let mut chars = text.chars().peekable();
        let mut quote = None;
        while let Some(c) = chars.next() {
            match (quote, c) {
                (Some('\''), '\'') | (Some('"'), '"') => quote = None,
                (Some('\''), c) => out.push(c),
                (None, '\'' | '"') if self.quotes == Quotes::Removed => quote = Some(c),
                (_, '\\') => self.escape(&mut chars, quote.is_some(), &mut out),
                (_, '$') => out.push_str(&self.variable(&mut chars)?),
                (_, c) => out.push(c),
            }
            if out.len() > EXPANDED_BYTES_MAX {
                return Err(format!("variables make more than {EXPANDED_BYTES_MAX} bytes of it"));
            }
        }
        match quote {
            Some(quote) => Err(format!("a {quote} is not closed")),
            None => Ok(out),
        }
    }

    fn escape(&self, chars: &mut Chars<'_>, quoted: bool, out: &mut String) {
        let special = |c: char| match (self.quotes, quoted) {
            (Quotes::Kept, _) => c == '$' || c == '\\',
            (Quotes::Removed, true) => matches!(c, '$' | '\\' | '"'),
            (Quotes::Removed, false) => true,
        };
        match chars.peek().copied() {
            Some(c) if special(c) => {
                chars.next();
                out.push(c);
            }
            _ => out.push('\\'),
        }
    }

    /// Reads what follows a dollar sign.
    fn variable(&self, chars: &mut Chars<'_>) -> Result<String, String> {
        if chars.peek() != Some(&'{') {
            let name = name(chars);
            return Ok(if name.is_empty() { "$".to_owned() } else { self.value(&name).unwrap_or_default().to_owned() });
        }
        chars.next();
        let name = name(chars);
        let (mut rest, mut open) = (String::new(), 1);
        for c in chars.by_ref() {
            open = match c {
                '{' => open + 1,
                '}' => open - 1,
                _ => open,
            };
            if open == 0 {
                return self.modified(&name, &rest);
            }
            rest.push(c);
        }
        Err("a ${ is not closed".to_owned())
    }

    fn modified(&self, name: &str, rest: &str) -> Result<String, String> {
        if name.is_empty() {
            return Err("a ${} names no variable".to_owned());
        }
        let value = self.value(name);
        let filled = value.filter(|value| !value.is_empty());
        let deeper = |text: &str| Expansion { depth: self.depth + 1, ..*self }.run(text);
        match rest {
            "" => Ok(value.unwrap_or_default().to_owned()),
            _ if rest.starts_with(":-") => filled.map_or_else(|| deeper(&rest[2..]), |value| Ok(value.to_owned())),
            _ if rest.starts_with(":+") => filled.map_or(Ok(String::new()), |_| deeper(&rest[2..])),
            _ if rest.starts_with('-') => value.map_or_else(|| deeper(&rest[1..]), |value| Ok(value.to_owned())),
            _ if rest.starts_with('+') => value.map_or(Ok(String::new()), |_| deeper(&rest[1..])),
            _ => Err(format!("${{{name}{rest}}} is not understood; use ${{{name}:-word}} or ${{{name}:+word}}")),
        }
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str)
    }
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn name(chars: &mut Chars<'_>) -> String {
    let mut name = String::new();
    while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
        name.push(c);
    }
    name
}
