//! The answer of a tool, and how a long text is made short enough for a model. The first part is
//! the body of the API's answer; a note after it tells how to read on.

use serde_json::Value;

use crate::{api::RestAnswer, limits::TEXT_BYTES_MAX};

/// The answer of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOutput {
    pub parts: Vec<ToolPart>,
    pub failed: bool,
}

/// One part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolPart {
    Text(String),
    /// An image in base64, and its MIME type.
    Image {
        data: String,
        mime: String,
    },
}

impl ToolOutput {
    /// An answer with one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![ToolPart::Text(text.into())], failed: false }
    }

    /// A failure that the agent can read.
    pub fn failure(text: impl Into<String>) -> Self {
        Self { failed: true, ..Self::text(text) }
    }

    /// Adds a text.
    pub fn and(mut self, text: impl Into<String>) -> Self {
        self.parts.push(ToolPart::Text(text.into()));
        self
    }

    /// Shows an answer of the API. `read_on` tells how to get what did not fit.
    pub fn of(answer: &RestAnswer, read_on: &str) -> Self {
        let text = match answer.body.is_empty() {
            true => "done".to_owned(),
            false => answer.text(),
        };
        let mut shown = match fitted(&text, read_on) {
            None => Self::text(text),
            Some((short, note)) => Self::text(short).and(note),
        };
        shown.failed = answer.is_refusal();
        shown
    }
}

/// Shortens a text that is too long, and tells what is missing.
fn fitted(text: &str, read_on: &str) -> Option<(String, String)> {
    if text.len() <= TEXT_BYTES_MAX {
        return None;
    }
    if let Ok(mut value) = serde_json::from_str::<Value>(text)
        && let Some((kept, all)) = shorten_list(&mut value)
    {
        return Some((value.to_string(), format!("[{kept} of {all} entries are shown; {read_on}]")));
    }
    let (short, omitted) = cut_middle(text, TEXT_BYTES_MAX);
    Some((short, format!("[{omitted} bytes in the middle are not shown; {read_on}]")))
}

/// Drops the last entries of a list, or of the longest list in an object, until the rest fits.
/// Returns the numbers of entries kept and before.
fn shorten_list(value: &mut Value) -> Option<(usize, usize)> {
    let list = match value {
        Value::Array(list) => list,
        Value::Object(fields) => fields
            .values_mut()
            .filter_map(Value::as_array_mut)
            .max_by_key(|list| list.len())
            .filter(|l| !l.is_empty())?,
        _ => return None,
    };
    let entries = std::mem::take(list);
    let all = entries.len();
    let mut room = TEXT_BYTES_MAX;
    for entry in entries {
        match room.checked_sub(entry.to_string().len() + 1) {
            Some(rest) => room = rest,
            None => break,
        }
        list.push(entry);
    }
    let kept = list.len();
    // Something else is long if even this does not fit.
    (kept > 0 && value.to_string().len() <= TEXT_BYTES_MAX + TEXT_BYTES_MAX / 4).then_some((kept, all))
}

/// Keeps the start and the end of a text, because an agent needs both. Returns it and the number of
/// bytes that were omitted. Lengths are those that the text has inside JSON.
pub fn cut_middle(text: &str, bytes_max: usize) -> (String, usize) {
    if json_len(text) <= bytes_max {
        return (text.to_owned(), 0);
    }
    let half = bytes_max / 2;
    let head = end_within(text.char_indices().map(|(at, letter)| (at + letter.len_utf8(), letter)), half).unwrap_or(0);
    let tail = end_within(text.char_indices().rev(), half).unwrap_or(text.len()).max(head);
    let omitted = tail - head;
    (format!("{}\n[… {omitted} bytes omitted …]\n{}", &text[..head], &text[tail..]), omitted)
}

/// Length of a text inside JSON.
pub fn json_len(text: &str) -> usize {
    text.chars().map(json_cost).sum()
}

/// Returns the last position whose letters fit.
fn end_within(letters: impl Iterator<Item = (usize, char)>, bytes_max: usize) -> Option<usize> {
    let mut used = 0;
    let fits = |(at, letter)| {
        used += json_cost(letter);
        (used <= bytes_max).then_some(at)
    };
    letters.map_while(fits).last()
}

fn json_cost(letter: char) -> usize {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        control if control < ' ' => 6,
        other => other.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(status: u16, body: impl Into<Vec<u8>>) -> RestAnswer {
        RestAnswer { status, body: body.into(), more: false }
    }

    fn texts(output: &ToolOutput) -> Vec<&str> {
        let text = |part: &'_ ToolPart| match part {
            ToolPart::Text(_) => true,
            ToolPart::Image { .. } => false,
        };
        assert!(output.parts.iter().all(text));
        output
            .parts
            .iter()
            .filter_map(|part| if let ToolPart::Text(text) = part { Some(text.as_str()) } else { None })
            .collect()
    }

    #[test]
    fn a_short_answer_is_the_body_of_the_api() {
        assert_eq!(ToolOutput::of(&answer(200, "{}"), "x"), ToolOutput::text("{}"));
        assert_eq!(ToolOutput::of(&answer(204, ""), "x"), ToolOutput::text("done"));
        let refused = ToolOutput::of(&answer(404, r#"{"error":"sandbox not found"}"#), "x");
        assert!(refused.failed && texts(&refused) == [r#"{"error":"sandbox not found"}"#]);
    }

    #[test]
    fn a_long_list_stays_json_and_loses_its_last_entries() {
        let entry = |at: usize| json!({"name": format!("entry {at} {}", "x".repeat(90))});
        let entries: Vec<_> = (0..1000).map(entry).collect();
        for body in [json!(entries), json!({"path": "/", "entries": entries, "truncated": false})] {
            let shown = ToolOutput::of(&answer(200, body.to_string()), "ask for less");
            let parts = texts(&shown);
            assert!(parts[0].len() <= TEXT_BYTES_MAX + 100, "{}", parts[0].len());
            let kept: Value = serde_json::from_str(parts[0]).unwrap();
            let kept = kept.get("entries").unwrap_or(&kept).as_array().unwrap();
            assert_eq!(kept[..], entries[..kept.len()]);
            assert_eq!(parts[1], format!("[{} of 1000 entries are shown; ask for less]", kept.len()));
        }
    }

    #[test]
    fn a_long_text_loses_its_middle() {
        let long = format!("start{}end", "é\u{1b}".repeat(TEXT_BYTES_MAX));
        let shown = ToolOutput::of(&answer(200, long), "read the file");
        let parts = texts(&shown);
        assert!(parts[0].starts_with("start") && parts[0].ends_with("end"));
        assert!(json_len(parts[0]) <= TEXT_BYTES_MAX + 50 && parts[1].ends_with("read the file]"));
        assert_eq!(cut_middle("as it is", 8), ("as it is".to_owned(), 0));
    }

    #[test]
    fn one_huge_entry_is_cut_as_text() {
        let body = json!([{"a": "x".repeat(3 * TEXT_BYTES_MAX)}]).to_string();
        let shown = ToolOutput::of(&answer(200, body), "x");
        assert!(json_len(texts(&shown)[0]) <= TEXT_BYTES_MAX + 50);
    }
}
