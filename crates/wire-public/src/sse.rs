//! Event-stream text for the published clients: LF only, one `event:` line, one `data:` line of
//! ASCII JSON, a blank line. Non-ASCII characters are escaped, because one client splits lines at
//! U+0085, U+2028 and U+2029 even inside JSON.

use std::fmt::{Display, Write as _};

use serde::Serialize;

/// The content type. Without the charset one client reads Latin-1.
pub const CONTENT_TYPE: &str = "text/event-stream; charset=utf-8";
/// A comment that keeps a quiet stream open.
pub const KEEPALIVE: &str = ": ping\n\n";

/// Writes one event with an id. A client that reconnects sends the id in `Last-Event-ID`.
pub fn event_with_id(name: &str, id: impl Display, data: &impl Serialize) -> String {
    format!("id: {id}\n{}", event(name, data))
}

/// Writes one event. `data` must serialize to a JSON object.
pub fn event(name: &str, data: &impl Serialize) -> String {
    // Our event types are flat structs of text and numbers, which always serialize.
    let json = serde_json::to_string(data).unwrap_or_else(|_| r#"{"error":"internal error"}"#.to_owned());
    let mut out = String::with_capacity(json.len() + name.len() + 24);
    out.push_str("event: ");
    out.push_str(name);
    out.push_str("\ndata: ");
    push_ascii(&mut out, &json);
    out.push_str("\n\n");
    out
}

/// Copies JSON and escapes every character outside printable ASCII as `\uXXXX`. Such characters
/// occur only inside strings.
fn push_ascii(out: &mut String, json: &str) {
    let mut units = [0; 2];
    for character in json.chars() {
        if matches!(character, ' '..='~') {
            out.push(character);
        } else {
            for unit in character.encode_utf16(&mut units) {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExecChunk, ExecExit};

    #[test]
    fn the_exact_bytes_of_an_event() {
        assert_eq!(
            event("stdout", &ExecChunk { chunk: "é Å 😀\u{2028}\u{85}\u{7f}\"\\\r\n".into() }),
            "event: stdout\ndata: {\"chunk\":\"\\u00e9 \\u00c5 \\ud83d\\ude00\\u2028\\u0085\\u007f\\\"\\\\\\r\\n\"}\n\n"
        );
        assert_eq!(event("exit", &ExecExit { exit_code: 3 }), "event: exit\ndata: {\"exit_code\":3}\n\n");
    }

    #[test]
    fn escaped_text_decodes_to_itself() {
        let chunk: String = (0..0x11000u32).filter_map(char::from_u32).collect();
        let text = event("stdout", &ExecChunk { chunk: chunk.clone() });
        assert!(text.is_ascii());
        assert_eq!(text.matches('\n').count(), 3);
        assert!(!text.contains('\r'));
        let json = text.strip_prefix("event: stdout\ndata: ").unwrap().trim_end();
        assert_eq!(serde_json::from_str::<ExecChunk>(json).unwrap().chunk, chunk);
    }
}
