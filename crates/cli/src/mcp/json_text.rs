//! Changes one entry in the text of a JSON file. Everything else stays as it is, with its order,
//! its spacing and its comments.

use std::ops::Range;

use anyhow::{Context, bail};
use serde_json::{Map, Value};

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 200;

/// Sets `field.name` to an object, and returns the new text. An empty text is an empty object.
pub fn set_entry(text: &str, field: &str, name: &str, entry: &Map<String, Value>) -> anyhow::Result<String> {
    if text.trim().is_empty() {
        let all = serde_json::json!({field: {name: entry}});
        return Ok(format!("{}\n", serde_json::to_string_pretty(&all)?));
    }
    let root = Members::read(text, Reader(text).space(0)).context("read the file: it must hold a JSON object")?;
    let indent = root.indent(text);
    let Some(found) = root.find(field) else {
        let value = serde_json::json!({name: entry});
        return Ok(root.with(text, field, &pretty(&value, &indent)?, &indent));
    };
    let entries = Members::read(text, found.start).with_context(|| format!("{field:?} must be an object"))?;
    let inner = if entries.all.is_empty() { format!("{indent}{indent}") } else { entries.indent(text) };
    let written = pretty(&Value::Object(entry.clone()), &inner)?;
    Ok(match entries.find(name) {
        Some(old) => format!("{}{written}{}", &text[..old.start], &text[old.end..]),
        None => entries.with(text, name, &written, &inner),
    })
}

/// Writes a value whose first line is already indented.
fn pretty(value: &Value, indent: &str) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)?.replace('\n', &format!("\n{indent}")))
}

/// The members of one object in a text.
struct Members {
    /// Name, position of the name, and position of the value.
    all: Vec<(String, usize, Range<usize>)>,
    /// Position of the opening brace.
    open: usize,
}

impl Members {
    fn read(text: &str, open: usize) -> anyhow::Result<Self> {
        let reader = Reader(text);
        if reader.byte(open) != Some(b'{') {
            bail!("there is no object");
        }
        let (mut all, mut at) = (Vec::new(), reader.space(open + 1));
        while reader.byte(at) != Some(b'}') {
            let end = reader.string(at)?;
            let name: String = serde_json::from_str(&text[at..end]).context("read a name")?;
            let colon = reader.space(end);
            if reader.byte(colon) != Some(b':') {
                bail!("a colon is missing after {name:?}");
            }
            let start = reader.space(colon + 1);
            let value = start..reader.value(start, 0)?;
            let after = reader.space(value.end);
            all.push((name, at, value));
            at = match reader.byte(after) {
                Some(b',') => reader.space(after + 1),
                Some(b'}') => after,
                _ => bail!("the file ends early, or a comma is missing"),
            };
        }
        Ok(Self { all, open })
    }

    /// Returns the value of the last member with this name, which is the one that counts.
    fn find(&self, name: &str) -> Option<Range<usize>> {
        self.all.iter().rev().find(|(other, ..)| other == name).map(|(_, _, value)| value.clone())
    }

    /// Returns the indentation of the members.
    fn indent(&self, text: &str) -> String {
        let usual = || "  ".to_owned();
        let Some((_, at, _)) = self.all.first() else { return usual() };
        let line = text[..*at].rsplit_once('\n').map(|(_, line)| line);
        line.filter(|line| line.bytes().all(|byte| matches!(byte, b' ' | b'\t'))).map_or_else(usual, str::to_owned)
    }

    /// Adds a member at the end.
    fn with(&self, text: &str, name: &str, value: &str, indent: &str) -> String {
        let name = Value::from(name);
        match self.all.last() {
            Some((_, _, last)) => {
                let (before, after) = text.split_at(last.end);
                format!("{before},\n{indent}{name}: {value}{after}")
            }
            None => {
                let (before, after) = text.split_at(self.open + 1);
                let outer = indent.strip_suffix("  ").unwrap_or_default();
                format!("{before}\n{indent}{name}: {value}\n{outer}{}", after.trim_start())
            }
        }
    }
}

/// Finds the ends of values.
struct Reader<'a>(&'a str);

impl Reader<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.0.as_bytes().get(at).copied()
    }

    /// Skips white space and comments.
    fn space(&self, mut at: usize) -> usize {
        loop {
            let rest = self.0.get(at..).unwrap_or_default();
            let skipped = match rest {
                _ if rest.starts_with(|letter: char| letter.is_whitespace() || letter == '\u{feff}') => {
                    rest.chars().next().map_or(0, char::len_utf8)
                }
                _ if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
                _ if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
                _ => return at,
            };
            at += skipped;
        }
    }

    /// Returns the end of a string.
    fn string(&self, start: usize) -> anyhow::Result<usize> {
        if self.byte(start) != Some(b'"') {
            bail!("a name in quotes is missing");
        }
        let mut at = start + 1;
        loop {
            match self.byte(at) {
                Some(b'"') => return Ok(at + 1),
                Some(b'\\') => at += 2,
                Some(_) => at += 1,
                None => bail!("a string does not end"),
            }
        }
    }

    /// Returns the end of a value.
    fn value(&self, start: usize, depth: usize) -> anyhow::Result<usize> {
        if depth > DEPTH_MAX {
            bail!("the file is nested too deeply");
        }
        match self.byte(start) {
            Some(b'"') => self.string(start),
            Some(b'{' | b'[') => {
                let mut at = self.space(start + 1);
                loop {
                    at = match self.byte(at) {
                        Some(b'}' | b']') => return Ok(at + 1),
                        Some(b',' | b':') => self.space(at + 1),
                        Some(_) => self.space(self.value(at, depth + 1)?),
                        None => bail!("a bracket is not closed"),
                    };
                }
            }
            Some(_) => {
                let rest = &self.0[start..];
                let ends = |letter: char| letter.is_whitespace() || ",]}:/".contains(letter);
                match rest.find(ends).unwrap_or(rest.len()) {
                    0 => bail!("a value is missing"),
                    length => Ok(start + length),
                }
            }
            None => bail!("the file ends early"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry() -> Map<String, Value> {
        json!({"command": "p", "args": ["mcp"]}).as_object().unwrap().clone()
    }

    /// Sets the entry, and checks that nothing else changed.
    fn check(text: &str) -> String {
        let new = set_entry(text, "mcpServers", "pandastack", &entry()).unwrap();
        assert_eq!(
            set_entry(&new, "mcpServers", "pandastack", &entry()).unwrap(),
            new,
            "a second time changes nothing"
        );
        let Ok(mut before) = serde_json::from_str::<Value>(if text.is_empty() { "{}" } else { text }) else {
            return new;
        };
        let after: Value = serde_json::from_str(&new).unwrap_or_else(|error| panic!("{error}: {new}"));
        before["mcpServers"]["pandastack"] = Value::Object(entry());
        assert_eq!(after, before, "{new}");
        new
    }

    #[test]
    fn an_entry_is_added_or_replaced_and_the_rest_stays() {
        check("");
        check("{}");
        check("{\n}\n");
        check(r#"{"zebra": 1, "apple": [1, {"x": "}"}]}"#);
        check(r#"{"mcpServers": {}}"#);
        check("{\n  \"mcpServers\": {\n  },\n  \"z\": null\n}\n");
        check("{\n    \"mcpServers\": {\n        \"other\": {\"command\": \"a\\\"b\"}\n    },\n    \"b\": 1\n}\n");
        let replaced = check("{\"mcpServers\": {\"pandastack\": {\"command\": \"old\"}, \"x\": {}}, \"a\": 1e5}");
        assert!(!replaced.contains("old"));
        let added = check("{\n\t\"z\": 1,\n\t\"a\": 2\n}\n");
        assert!(added.starts_with("{\n\t\"z\": 1,\n\t\"a\": 2,\n\t\"mcpServers\": {\n\t"), "{added}");
    }

    #[test]
    fn comments_and_trailing_commas_stay() {
        let text = "// mine {\n{\n  /* \"mcpServers\": {} */\n  \"mcpServers\": {\n    \"x\": {}, // last\n  },\n}\n";
        let new = set_entry(text, "mcpServers", "pandastack", &entry()).unwrap();
        assert!(new.contains("// mine {") && new.contains("// last") && new.contains("\"pandastack\": {"), "{new}");
        assert_eq!(set_entry(&new, "mcpServers", "pandastack", &entry()).unwrap(), new);
    }

    #[test]
    fn a_broken_file_is_refused() {
        let deep = format!("{{\"a\": {}", "[".repeat(100_000));
        for text in
            ["[]", "5", "{", "{\"a\"", "{\"a\":", "{\"a\": 1 \"b\": 2}", "{\"mcpServers\": []}", "{\"a\": \"", &deep]
        {
            assert!(set_entry(text, "mcpServers", "pandastack", &entry()).is_err(), "{}", &text[..text.len().min(30)]);
        }
    }
}
