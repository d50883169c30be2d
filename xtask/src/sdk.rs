//! `cargo xtask sdk`: writes the core of both SDKs from the document of the public API: a type for
//! each schema and a function for each operation. What people call is written by hand on top.

mod document;
mod python;
mod typescript;

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use document::ApiDocument;

use crate::run;

/// First line of every written file, after the sign of a comment.
const MARK: &str = "Written by `cargo xtask sdk` from docs/openapi.json. Do not edit.";

/// Columns of a line.
const COLUMNS_MAX: usize = 100;

/// Writes the files.
pub fn run() -> Result<ExitCode> {
    for (place, text) in files()? {
        fs::create_dir_all(place.parent().context("a file is in a folder")?).context("make the folder")?;
        fs::write(&place, text).with_context(|| format!("write {}", place.display()))?;
        println!("sdk: {} written", place.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Every written file with its text.
fn files() -> Result<Vec<(PathBuf, String)>> {
    let api = ApiDocument::read(&pandastack_wire_public::openapi::document())?;
    let python = |name: &str| run::workspace().join("sdk/python/src/pandastack/_core").join(name);
    let typescript = |name: &str| run::workspace().join("sdk/typescript/src/core").join(name);
    Ok(vec![
        (python("models.py"), python::models(&api)),
        (python("operations.py"), python::operations(&api)),
        (typescript("models.ts"), typescript::models(&api)),
        (typescript("operations.ts"), typescript::operations(&api)),
    ])
}

/// Breaks a text into lines that fit behind an indentation.
fn wrap(text: &str, indent: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if indent + line.len() + 1 + word.len() <= COLUMNS_MAX => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_core_is_what_the_document_says() {
        for (place, fresh) in files().unwrap() {
            let committed = fs::read_to_string(&place).unwrap_or_default();
            let differs = committed.lines().zip(fresh.lines()).find(|(old, new)| old != new);
            assert!(
                committed == fresh,
                "{} is stale; run `cargo xtask sdk`. First difference: {differs:?}",
                place.display()
            );
        }
    }

    #[test]
    fn texts_are_wrapped_between_words() {
        let text = "word ".repeat(50);
        let lines = wrap(&text, 20);
        assert!(lines.iter().all(|line| line.len() <= COLUMNS_MAX - 20), "{lines:?}");
        assert_eq!(lines.join(" "), text.trim());
    }
}
