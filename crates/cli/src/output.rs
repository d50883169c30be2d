//! What goes to standard output: tables for people; JSON, YAML or names for programs. The form is
//! decided here, once for all commands.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use serde::Serialize;
use serde_json::Value;

use crate::{GlobalArgs, colour, exit::ExitReason, yaml::yaml};

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputForm {
    /// For people
    #[default]
    Table,
    /// As the server sends it
    Json,
    /// The same as YAML
    Yaml,
    /// One id or name per line
    Name,
}

/// Fields that name a thing, best first, and fields that do so if nothing else does.
const NAMES: [&str; 2] = ["id", "name"];
const OTHER_NAMES: [&str; 6] = ["sandbox_id", "user_id", "org_id", "url", "email", "path"];

impl GlobalArgs {
    /// Returns the form of results.
    pub fn form(&self) -> OutputForm {
        if self.json { OutputForm::Json } else { self.output.unwrap_or_default() }
    }

    /// Tells whether a program reads the output.
    pub fn is_structured(&self) -> bool {
        self.form() != OutputForm::Table
    }

    /// Prints a value in the chosen form; JSON if that is a table.
    pub fn print(&self, value: &impl Serialize) -> anyhow::Result<()> {
        line(structured(self.form(), value)?.trim_end_matches('\n'))
    }

    /// Prints one of several values that come one after the other: JSON on one line.
    pub fn print_event(&self, value: &impl Serialize) -> anyhow::Result<()> {
        match self.form() {
            OutputForm::Yaml => line(&format!("---\n{}", structured(OutputForm::Yaml, value)?.trim_end())),
            _ => line(&serde_json::to_string(value).context("write JSON")?),
        }
    }
}

/// Writes a value in a form for programs.
pub fn structured(form: OutputForm, value: &impl Serialize) -> anyhow::Result<String> {
    match form {
        OutputForm::Table | OutputForm::Json => serde_json::to_string_pretty(value).context("write JSON"),
        OutputForm::Yaml => Ok(yaml(&serde_json::to_value(value).context("write YAML")?)),
        OutputForm::Name => {
            let value = serde_json::to_value(value).context("find the name")?;
            match names(&value) {
                Some(names) => Ok(names.join("\n")),
                None => Err(ExitReason::Usage.error("this output has no ids; use -o json or -o yaml")),
            }
        }
    }
}

/// Finds what a result is about: its own name, or those of its parts.
fn names(value: &Value) -> Option<Vec<&str>> {
    match value {
        Value::String(text) => Some(vec![text]),
        Value::Array(items) => items.iter().map(names).collect::<Option<Vec<_>>>().map(|found| found.concat()),
        Value::Object(fields) => {
            let text = |names: &[&str]| names.iter().find_map(|name| fields.get(*name)?.as_str());
            let parts = || fields.values().filter(|field| field.is_array()).find_map(names);
            text(&NAMES).map(|name| vec![name]).or_else(parts).or_else(|| text(&OTHER_NAMES).map(|name| vec![name]))
        }
        _ => None,
    }
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
    line(shown_table(head, rows).trim_end())
}

/// Writes a table, with colours if standard output is a terminal.
pub fn shown_table(head: &[&str], rows: &[Vec<String>]) -> String {
    table_text(head, rows, colour::is_wanted(io::stdout().is_terminal()))
}

fn table_text(head: &[&str], rows: &[Vec<String>], is_coloured: bool) -> String {
    let plain = |cell: &str| cell.chars().filter(|letter| !letter.is_control()).collect::<String>();
    let head: Vec<String> = head.iter().map(|cell| plain(cell)).collect();
    let rows = rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect::<Vec<_>>());
    let lines: Vec<Vec<String>> = std::iter::once(head.clone()).chain(rows).collect();
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for line in &lines {
        let last = line.iter().rposition(|cell| !cell.is_empty()).unwrap_or(0);
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate().take(last + 1) {
            let padding = if column == last { 0 } else { width + 2 - cell.chars().count() };
            let is_state = colour::is_state_column(&head, line, column);
            text.push_str(&if is_coloured && is_state { colour::state(cell) } else { cell.clone() });
            text.push_str(&" ".repeat(padding));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["a".into(), "running".into()], vec!["long-id".into(), "é".into()]];
        assert_eq!(table_text(&["ID", "STATUS"], &rows, false), "ID       STATUS\na        running\nlong-id  é\n");
        let rows =
            [vec!["a".into(), "running".into(), "b\u{1b}[31m".into()], vec!["c".into(), String::new(), "".into()]];
        let coloured = table_text(&["ID", "STATUS", "X"], &rows, true);
        assert_eq!(coloured, "ID  STATUS   X\na   \u{1b}[32mrunning\u{1b}[0m  b[31m\nc\n");
    }

    fn named(value: Value) -> Option<String> {
        structured(OutputForm::Name, &value).ok()
    }

    #[test]
    fn a_name_is_found_in_every_answer() {
        assert_eq!(named(json!({"id": "a", "name": "b"})).as_deref(), Some("a"));
        assert_eq!(named(json!([{"name": "x"}, {"name": "y"}])).as_deref(), Some("x\ny"));
        assert_eq!(named(json!({"deleted": ["a", "b"]})).as_deref(), Some("a\nb"));
        assert_eq!(named(json!({"sandbox_id": "s", "nodes": [{"id": "r"}, {"id": "s"}]})).as_deref(), Some("r\ns"));
        assert_eq!(named(json!({"sandbox_id": "s", "url": "u"})).as_deref(), Some("s"));
        assert_eq!(named(json!([])).as_deref(), Some(""));
        assert_eq!(named(json!({"limits": {"cpu": 1}})), None);
    }

    #[test]
    fn yaml_and_json_have_the_same_contents() {
        assert_eq!(structured(OutputForm::Yaml, &json!({"a": [1]})).unwrap(), "a:\n  - 1\n");
        assert_eq!(structured(OutputForm::Json, &json!({"a": 1})).unwrap(), "{\n  \"a\": 1\n}");
    }
}
