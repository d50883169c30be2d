//! Allowed paths of a preview: prefixes, compared part by part. A path that two programs could read
//! differently (`..`, doubled or encoded slashes, backslashes, nested encodings) matches no rule.

/// Most rules in one list, and most bytes in one rule.
pub const PATH_RULES_MAX: usize = 16;
pub const PATH_RULE_BYTES_MAX: usize = 256;

/// Most nested encodings of a path that are decoded; a deeper one is refused.
const DECODINGS_MAX: usize = 3;

/// A list of path prefixes. An empty one allows every path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathRules(Vec<String>);

/// A list that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPathRule {
    #[error("at most {PATH_RULES_MAX} paths are allowed")]
    TooMany,
    #[error("a path is longer than {PATH_RULE_BYTES_MAX} bytes")]
    TooLong,
    #[error("{0:?} is not a valid path prefix; it must not contain '|', ',', '?', '#', '..', '//' or a backslash")]
    Unclear(String),
}

impl PathRules {
    /// Checks a list. A leading `/` may be left out.
    pub fn new(asked: Vec<String>) -> Result<Self, BadPathRule> {
        if asked.len() > PATH_RULES_MAX {
            return Err(BadPathRule::TooMany);
        }
        asked.into_iter().map(rule).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the rules in their stored form.
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }

    /// Whether a path, as received, matches a rule.
    pub fn allows(&self, path: &str) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let Some(asked) = parts(path) else { return false };
        self.0.iter().filter_map(|rule| parts(rule)).any(|rule| {
            // `/docs/` means the same as `/docs`, and `/` matches every path.
            let rule = if rule.last().is_some_and(String::is_empty) { &rule[..rule.len() - 1] } else { &rule };
            asked.starts_with(rule)
        })
    }
}

fn rule(asked: String) -> Result<String, BadPathRule> {
    if asked.len() > PATH_RULE_BYTES_MAX {
        return Err(BadPathRule::TooLong);
    }
    let path = if asked.starts_with('/') { asked } else { format!("/{asked}") };
    let clear = !path.contains(['|', ',', '?', '#']) && parts(&path).is_some();
    if clear { Ok(path) } else { Err(BadPathRule::Unclear(path.chars().take(80).collect())) }
}

/// Splits a path into its decoded parts. `None` if they are ambiguous.
fn parts(path: &str) -> Option<Vec<String>> {
    let raw: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let last = raw.len() - 1;
    let part = |(at, raw): (usize, &&str)| if raw.is_empty() && at != last { None } else { clear_part(raw) };
    raw.iter().enumerate().map(part).collect()
}

/// Decodes one part once. `None` if a further decoding could turn it into something other than a
/// name.
fn clear_part(raw: &str) -> Option<String> {
    let once = decode(raw)?;
    let mut text = raw.to_owned();
    for _ in 0..=DECODINGS_MAX {
        if !is_name(&text) {
            return None;
        }
        // A percent sign that encodes nothing is a plain character after the first decoding.
        let Some(next) = decode(&text).filter(|next| *next != text) else { return Some(once) };
        text = next;
    }
    None
}

/// Whether text names an entry of its folder. Some servers cut `;` and the rest before they look it
/// up.
fn is_name(text: &str) -> bool {
    let bare = text.split(';').next().unwrap_or_default().trim();
    !matches!(bare, "." | "..") && !text.contains(|c: char| matches!(c, '/' | '\\') || c.is_control())
}

/// Removes one layer of percent encoding. `None` if it is malformed or not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, tail @ ..] = rest else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(*high)? * 16 + digit(*low)?) as u8);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(list: &[&str]) -> PathRules {
        PathRules::new(list.iter().map(|rule| (*rule).to_owned()).collect()).unwrap()
    }

    fn check(list: &[&str], path: &str, expected: bool) {
        assert_eq!(rules(list).allows(path), expected, "{path:?} against {list:?}");
    }

    #[test]
    fn prefixes_match_whole_parts() {
        for path in ["/docs", "/docs/", "/docs/a", "/docs/a/b.html", "/%64ocs/a", "/docs/a%20b", "/docs/100%25"] {
            check(&["/docs"], path, true);
            check(&["docs/"], path, true);
        }
        for path in ["/", "/doc", "/docsx", "/docs.bak", "/Docs", "/a/docs", "docs", "*", ""] {
            check(&["/docs"], path, false);
        }
        check(&[], "/any//thing/../at%2fall", true);
        check(&["/"], "/any/thing", true);
        check(&["/"], "/any/../thing", false);
        check(&["/a/b", "/é"], "/a/b/c", true);
        check(&["/a/b", "/é"], "/%C3%A9/x", true);
        check(&["/a/b"], "/a", false);
    }

    #[test]
    fn no_spelling_walks_out_of_a_rule() {
        for path in [
            "/docs/../secret",
            "/docs/..",
            "/docs/./../secret",
            "/docs/%2e%2e/secret",
            "/docs/%2E./secret",
            "/docs/.%2e/secret",
            "/docs/%252e%252e/secret",
            "/docs/%25252e%25252e/secret",
            "/docs/%2525252525252e%2e/secret",
            "/docs//secret",
            "//docs/secret",
            "/docs/\\../secret",
            "/docs\\..\\secret",
            "/docs/%5c..%5csecret",
            "/docs/%255csecret",
            "/docs/%2fsecret",
            "/docs%2f..%2fsecret",
            "/docs/..%2fsecret",
            "/docs/%252fsecret",
            "/docs/..;/secret",
            "/docs/..;a=b/secret",
            "/docs/%2e%2e%3b/secret",
            "/docs/.. /secret",
            "/docs/%c0%ae%c0%ae/secret",
            "/docs/%ff",
            "/docs/%zz",
            "/docs/%2",
            "/docs/%00",
            "/docs/a%0d%0ab",
        ] {
            check(&["/docs"], path, false);
            check(&["/"], path, false);
        }
    }

    #[test]
    fn unclear_rules_are_refused() {
        for bad in
            ["/a|b", "/a,b", "/a/../b", "//a", "/a//b", "/a\\b", "/%2e%2e", "/a?b", "/a#b", "/a%2fb", "/a%", "/a\nb"]
        {
            let refused = PathRules::new(vec![bad.to_owned()]);
            assert!(matches!(refused, Err(BadPathRule::Unclear(_))), "{bad:?}");
        }
        assert_eq!(PathRules::new(vec!["/".to_owned() + &"a".repeat(PATH_RULE_BYTES_MAX)]), Err(BadPathRule::TooLong));
        assert_eq!(PathRules::new(vec!["/a".to_owned(); PATH_RULES_MAX + 1]), Err(BadPathRule::TooMany));
    }

    /// Reads a path as a careless server would: decodes it twice, treats backslashes as slashes,
    /// and resolves dots.
    fn carelessly(path: &str) -> Vec<String> {
        let twice = decode(path).and_then(|once| decode(&once).or(Some(once))).unwrap_or_else(|| path.to_owned());
        let mut at: Vec<String> = Vec::new();
        for part in twice.split(['/', '\\']) {
            match part.split(';').next().unwrap_or_default() {
                "" | "." => {}
                ".." => drop(at.pop()),
                name => at.push(name.to_owned()),
            }
        }
        at
    }

    proptest! {
        #[test]
        fn what_is_allowed_stays_inside_however_it_is_read(path in "/(docs|%64ocs|\\.\\.|%2e%2e|%252e|a|;|/|\\\\|%5c|%2f|%252f|\\.|%|%25){0,8}") {
            if rules(&["/docs"]).allows(&path) {
                let at = carelessly(&path);
                prop_assert_eq!(at.first().map(String::as_str), Some("docs"), "{}", path);
            }
        }

        #[test]
        fn no_text_panics(path in "\\PC{0,60}", rule in "\\PC{0,30}") {
            if let Ok(rules) = PathRules::new(vec![rule]) {
                rules.allows(&path);
            }
        }
    }
}
