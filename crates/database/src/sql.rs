//! The form of a statement for each driver.

use std::fmt::Write as _;

/// Numbers the placeholders of a statement for PostgreSQL: `?` becomes `$1`, `$2`, …, and `?2`
/// becomes `$2`. Text in quotes stays as it is.
pub(crate) fn numbered(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len() + 16);
    let (mut next, mut quoted) = (1, false);
    let mut rest = sql.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\'' => {
                quoted = !quoted;
                out.push('\'');
            }
            '?' if !quoted => {
                out.push('$');
                if rest.peek().is_none_or(|after| !after.is_ascii_digit()) {
                    // Writing to a text cannot fail.
                    let _ = write!(out, "{next}");
                    next += 1;
                }
            }
            _ => out.push(character),
        }
    }
    out
}

/// Renders a schema step for PostgreSQL. The steps use types that both know, but for bytes.
pub(crate) fn schema_for_postgres(step: &str) -> String {
    step.replace(" BLOB", " BYTEA")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_numbered_outside_of_quotes() {
        for (sql, expected) in [
            ("SELECT 1", "SELECT 1"),
            ("a = ? AND b = ?", "a = $1 AND b = $2"),
            ("a = '?' AND b = ? AND c = 'it''s ?'", "a = '?' AND b = $1 AND c = 'it''s ?'"),
            ("a = ?1 OR b = ?1 OR c = ?12", "a = $1 OR b = $1 OR c = $12"),
        ] {
            assert_eq!(numbered(sql), expected);
        }
    }
}
