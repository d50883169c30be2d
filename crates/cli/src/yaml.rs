//! Writes a JSON value as YAML. Only what JSON has, so it needs no library (decision 39).

use serde_json::Value;

/// Words that YAML reads as something else than text.
const WORDS: [&str; 12] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf", "~"];

/// Returns a block of YAML that ends with a line break.
pub fn yaml(value: &Value) -> String {
    let mut text = String::new();
    block(&mut text, value, 0);
    text
}

fn block(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                text.push_str(&"  ".repeat(depth));
                text.push('-');
                below(text, item, depth, true);
            }
        }
        Value::Object(fields) if !fields.is_empty() => {
            for (index, (name, field)) in fields.iter().enumerate() {
                // The first field of a list's item stands on the line of its dash.
                if index > 0 || !text.ends_with("- ") {
                    text.push_str(&"  ".repeat(depth));
                }
                text.push_str(&scalar(name));
                text.push(':');
                below(text, field, depth, false);
            }
        }
        other => {
            text.push_str(&flow(other));
            text.push('\n');
        }
    }
}

/// Writes a value behind a dash or a colon.
fn below(text: &mut String, value: &Value, depth: usize, is_item: bool) {
    match value {
        Value::Object(fields) if is_item && !fields.is_empty() => {
            text.push(' ');
            block(text, value, depth + 1);
        }
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            block(text, value, depth + 1);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            block(text, value, depth + 1);
        }
        other => {
            text.push(' ');
            text.push_str(&flow(other));
            text.push('\n');
        }
    }
}

/// Writes a value without parts.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

/// Writes text plainly where that is surely text. Every quoted JSON string is also YAML.
fn scalar(text: &str) -> String {
    let is_plain = text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '/' || letter == '_')
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-./ @".contains(letter))
        && !text.ends_with(' ')
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { quoted(text) }
}

/// JSON allows some control characters in text that YAML does not.
fn quoted(text: &str) -> String {
    let escaped = |letter: char| match letter {
        '\u{7f}'..='\u{9f}' | '\u{feff}' => format!("\\u{:04x}", u32::from(letter)),
        letter => letter.to_string(),
    };
    Value::from(text).to_string().chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_and_objects_nest() {
        let value = json!([
            {"id": "a-1", "labels": {"name": "web", "x y": ""}, "ports": [80, 443], "none": [], "empty": {}},
            {"id": "b", "nested": [[1], {"c": null}], "ok": true},
        ]);
        let expected = "\
- empty: {}
  id: a-1
  labels:
    name: web
    x y: \"\"
  none: []
  ports:
    - 80
    - 443
- id: b
  nested:
    -
      - 1
    - c: null
  ok: true
";
        assert_eq!(yaml(&value), expected);
        assert_eq!(
            (yaml(&json!([])), yaml(&json!("x")), yaml(&json!(1.5))),
            ("[]\n".into(), "x\n".into(), "1.5\n".into())
        );
    }

    #[test]
    fn text_stays_text() {
        for (text, expected) in [
            ("no", "\"no\""),
            ("Null", "\"Null\""),
            ("12", "\"12\""),
            ("9a0-b", "\"9a0-b\""),
            ("1e5", "\"1e5\""),
            ("a: b", "\"a: b\""),
            ("# x", "\"# x\""),
            ("a b", "a b"),
            ("a ", "\"a \""),
            ("2026-11-17", "\"2026-11-17\""),
            ("/srv/x.py", "/srv/x.py"),
            ("line\nbreak \"q\" \\", "\"line\\nbreak \\\"q\\\" \\\\\""),
            ("\u{1b}\u{85}", "\"\\u001b\\u0085\""),
            ("é", "\"é\""),
        ] {
            assert_eq!(yaml(&json!(text)).trim_end_matches('\n'), expected, "{text:?}");
        }
    }
}
