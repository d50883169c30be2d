//! `cargo xtask openapi`: writes the document of the public API, which is committed and served.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use pandastack_wire_public::openapi::{document, written};

use crate::run;

/// Writes the file.
pub fn run() -> Result<ExitCode> {
    fs::write(place(), written(&document())).context("write the document")?;
    println!("openapi: {} written", place().display());
    Ok(ExitCode::SUCCESS)
}

fn place() -> PathBuf {
    run::workspace().join("docs/openapi.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_document_is_what_the_code_says() {
        let committed = fs::read_to_string(place()).unwrap();
        let fresh = written(&document());
        let differs = committed.lines().zip(fresh.lines()).find(|(old, new)| old != new);
        assert!(
            committed == fresh,
            "docs/openapi.json is stale; run `cargo xtask openapi`. First difference: {differs:?}"
        );
    }
}
