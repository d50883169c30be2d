//! `cargo xtask tidy`: the project's own rules. Reads manifests and sources, changes nothing. A
//! refusal fails the run; a warning is only shown. Each names the place, the rule, and the fix.

mod manifests;
mod overrides;
mod rules;
mod scrub;
mod type_names;

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use type_names::TypeNames;

use crate::{limits, run};

/// Folders with our Rust sources.
const SOURCES: &[&str] = &["crates", "bins", "xtask", "e2e", "fuzz"];

/// One finding at one place.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    pub file: String,
    pub line: usize,
    pub rule: &'static str,
    pub fix: String,
    pub severity: Severity,
}

/// Whether a finding fails the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Refusal,
    Warning,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Refusal => "refused",
            Severity::Warning => "warning",
        };
        write!(out, "{}:{}: {severity}: {}: {}", self.file, self.line, self.rule, self.fix)
    }
}

/// Checks the whole workspace and prints the findings.
pub fn run() -> Result<ExitCode> {
    let mut findings = manifests::check()?;
    findings.extend(limits::check()?);
    findings.extend(overrides::check()?);
    let mut files = Vec::new();
    for folder in SOURCES.iter().map(|folder| run::workspace().join(folder)).filter(|folder| folder.exists()) {
        gather(&folder, &mut files)?;
    }
    let mut type_names = TypeNames::default();
    for file in &files {
        let text = fs::read_to_string(run::workspace().join(file)).with_context(|| format!("read {file}"))?;
        findings.extend(rules::check(file, &text));
        findings.extend(type_names.check(file, &text));
    }
    let documents = documents()?;
    for file in &documents {
        let text = fs::read_to_string(run::workspace().join(file)).with_context(|| format!("read {file}"))?;
        findings.extend(rules::check_document(file, &text));
    }
    for finding in &findings {
        println!("{finding}");
    }
    let refusals = findings.iter().filter(|finding| finding.severity == Severity::Refusal).count();
    println!(
        "tidy: {} files, {refusals} refusals, {} warnings",
        files.len() + documents.len(),
        findings.len() - refusals
    );
    Ok(if refusals == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Lists the documents, as paths from the workspace root.
fn documents() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for folder in [".", "docs", "docs/decisions", "images"] {
        let entries = fs::read_dir(run::workspace().join(folder)).with_context(|| format!("list {folder}"))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        found.extend(names.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}")));
    }
    found.sort();
    Ok(found)
}

/// Collects the `.rs` files below a folder, as paths from the workspace root, in a stable order.
pub fn gather(folder: &Path, files: &mut Vec<String>) -> Result<()> {
    let mut entries = fs::read_dir(folder)
        .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
        .with_context(|| format!("list {}", folder.display()))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "target" {
                gather(&path, files)?;
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            let shown = path.strip_prefix(run::workspace()).context("stay in the workspace")?;
            files.push(shown.to_string_lossy().into_owned());
        }
    }
    Ok(())
}
