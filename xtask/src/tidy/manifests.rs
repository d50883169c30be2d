//! Reads the arrows between rooms from `cargo metadata` and checks them against the table.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{Finding, Severity};
use crate::arrows::{self, Arrow, ArrowKind};
use crate::run;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// Absent for ordinary dependencies, else `dev` or `build`.
    kind: Option<String>,
    /// Present for packages of this workspace only.
    path: Option<String>,
}

/// Returns every arrow that the table does not have.
pub fn check() -> Result<Vec<Finding>> {
    let text = run::output(run::cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Metadata = serde_json::from_str(&text).context("read cargo metadata")?;
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let manifest = fs::read_to_string(&package.manifest_path).context("read a manifest")?;
        findings.extend(refusals(package, &manifest, &run::workspace()));
    }
    Ok(findings)
}

fn refusals(package: &Package, manifest: &str, root: &Path) -> Vec<Finding> {
    let file = below(&package.manifest_path, root);
    let folder = file.trim_end_matches("/Cargo.toml").to_owned();
    let ours = package.dependencies.iter().filter_map(|needs| Some((needs, needs.path.as_deref()?)));
    ours.filter_map(|(needs, path)| {
        let kind = if needs.kind.as_deref() == Some("dev") { ArrowKind::Tests } else { ArrowKind::Product };
        let fix = arrows::refuse(&Arrow { from: folder.clone(), to: below(path, root), kind })?;
        let line = manifest.lines().position(|line| line.starts_with(&needs.name)).map_or(1, |at| at + 1);
        Some(Finding { file: file.clone(), line, rule: "arrow not in the table", fix, severity: Severity::Refusal })
    })
    .collect()
}

fn below(path: &str, root: &Path) -> String {
    Path::new(path).strip_prefix(root).unwrap_or(Path::new(path)).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_arrow_names_its_line() {
        let package: Package = serde_json::from_str(
            r#"{"manifest_path": "/w/crates/edge/Cargo.toml", "dependencies": [
                {"name": "pandastack-model", "kind": null, "path": "/w/crates/model"},
                {"name": "pandastack-control", "kind": null, "path": "/w/crates/control"},
                {"name": "tokio", "kind": null}]}"#,
        )
        .expect("metadata as cargo writes it");
        let manifest = "[dependencies]\npandastack-model.workspace = true\npandastack-control.workspace = true\n";
        let found = refusals(&package, manifest, Path::new("/w"));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].file.as_str(), found[0].line), ("crates/edge/Cargo.toml", 3));
    }
}
