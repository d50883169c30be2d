//! Tables and JSON on standard output.

use std::io::{self, Write};

use anyhow::Context;
use serde::Serialize;

/// Prints a value as JSON.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value).context("write JSON")?;
    line(&text)
}

/// Prints one line. A closed pipe is not an error.
pub fn line(text: &str) -> anyhow::Result<()> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("write to standard output"),
    }
}

/// Prints a warning to standard error, so that programs that read our output do not see it.
pub fn warn(text: &str) {
    let _ = writeln!(io::stderr().lock(), "warning: {text}");
}

/// Prints columns, each as wide as its widest cell.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> anyhow::Result<()> {
    line(table_text(head, rows).trim_end())
}

fn table_text(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let lines: Vec<&Vec<String>> = std::iter::once(&head).chain(rows).collect();
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["a".into(), "running".into()], vec!["long-id".into(), "é".into()]];
        assert_eq!(table_text(&["ID", "STATUS"], &rows), "ID       STATUS\na        running\nlong-id  é\n");
    }
}
