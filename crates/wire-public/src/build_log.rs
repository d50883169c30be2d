//! A build's log as the published clients read it: one event for each line of text, and an end that
//! both clients recognize. Both clients inspect the text, so text that would mislead them is
//! changed here.

use crate::limits::BUILD_LOG_LINE_BYTES_MAX;

/// The last event.
pub const BUILD_LOG_END: &str = "event: done\ndata: end\n\n";

/// Prefix for a line that a client would misread.
const MARK: &str = "| ";

/// Splits output into lines that no client splits further: also at CR, without control characters,
/// and not too long.
pub fn log_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.split(['\n', '\r']) {
        let mut clean = String::with_capacity(line.len());
        for c in line.chars() {
            let c = if is_breaking(c) { ' ' } else { c };
            if clean.len() + c.len_utf8() > BUILD_LOG_LINE_BYTES_MAX {
                lines.push(std::mem::take(&mut clean));
            }
            clean.push(c);
        }
        lines.push(clean);
    }
    lines
}

/// Writes one line as an event. The line must come from [`log_lines`].
pub fn build_log_event(line: &str) -> String {
    // One client stops at an event that contains this text anywhere.
    let line = line.replace("event: done", "event:done");
    let trimmed = line.trim();
    let misleading = trimmed == "end" || (trimmed.starts_with('{') && trimmed.ends_with('}'));
    format!("data: {}{line}\n\n", if misleading { MARK } else { "" })
}

/// Characters that end a line for one of the clients, and control characters that disturb a
/// terminal.
fn is_breaking(c: char) -> bool {
    matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}') || (c.is_control() && c != '\t' && c != '\u{1b}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_where_clients_would_break_them() {
        assert_eq!(log_lines("a\rb\r\nc"), ["a", "b", "", "c"]);
        assert_eq!(log_lines("x\u{b}y\u{c}z\u{85}\u{2028}\u{2029}\u{0}é\t"), ["x y z    é\t"]);
        let long = log_lines(&"é".repeat(BUILD_LOG_LINE_BYTES_MAX));
        assert_eq!(long.len(), 2);
        assert!(long.iter().all(|line| line.len() <= BUILD_LOG_LINE_BYTES_MAX));
    }

    #[test]
    fn text_cannot_end_a_stream_or_look_like_an_error() {
        assert_eq!(build_log_event("hello"), "data: hello\n\n");
        assert_eq!(build_log_event("end"), "data: | end\n\n");
        assert_eq!(build_log_event("  end "), "data: |   end \n\n");
        assert_eq!(build_log_event("{\"error\":\"x\"}"), "data: | {\"error\":\"x\"}\n\n");
        assert!(!build_log_event("say event: done now").contains("event: done"));
        assert_eq!(BUILD_LOG_END, "event: done\ndata: end\n\n");
    }
}
