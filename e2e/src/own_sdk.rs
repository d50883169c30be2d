//! Our own SDKs: copied, built and installed once for each state of their sources.

#![allow(clippy::unwrap_used, reason = "an SDK that cannot be installed is the end of a test")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use sha2::{Digest, Sha256};

use crate::{
    project,
    published::{kept, run},
};

/// Folders that are not sources.
const MADE: [&str; 9] =
    ["node_modules", "dist", "build", "__pycache__", ".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".test"];

/// A copy of the Python SDK with an environment in which it and its tools are installed.
pub struct PythonSdk(PathBuf);

/// A copy of the TypeScript SDK that is built and has its tools.
pub struct TypeScriptSdk(PathBuf);

impl PythonSdk {
    pub fn installed() -> Self {
        let (source, mut files) = sources("sdk/python");
        // Its tests compare it with the document.
        files.push(source.join("docs/openapi.json"));
        Self(kept("own-python", &digest(&source, &files), |folder| {
            copy(&source, &files, folder);
            run(Command::new("python3").args(["-m", "venv"]).arg(folder.join("venv")));
            let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ".[dev]"];
            run(Command::new(folder.join("venv/bin/python")).args(install).current_dir(folder.join("sdk/python")));
        }))
    }

    /// A program of its environment, such as `python`, run beside its tests.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.0.join("venv/bin").join(program));
        command.current_dir(self.0.join("sdk/python"));
        command
    }

    /// The interpreter of its environment.
    pub fn interpreter(&self) -> PathBuf {
        self.0.join("venv/bin/python")
    }
}

impl TypeScriptSdk {
    pub fn installed() -> Self {
        let (source, files) = sources("sdk/typescript");
        let folder = kept("own-typescript", &digest(&source, &files), |folder| {
            copy(&source, &files, folder);
            let npm = |words: &[&str]| run(Command::new("npm").args(words).current_dir(folder.join("sdk/typescript")));
            npm(&["ci", "--silent", "--no-fund", "--no-audit"]);
            npm(&["run", "--silent", "build"]);
        });
        Self(folder.join("sdk/typescript"))
    }

    /// A script of its package.
    pub fn script(&self, name: &str) -> Command {
        let mut command = Command::new("npm");
        command.args(["run", "--silent", name]).current_dir(&self.0);
        command
    }

    /// The folder of the package.
    pub fn folder(&self) -> &Path {
        &self.0
    }
}

/// The project's folder, and the files of an SDK in the order of their names.
fn sources(sdk: &str) -> (PathBuf, Vec<PathBuf>) {
    let (source, mut files) = (project(), Vec::new());
    gather(&source.join(sdk), &mut files);
    files.sort();
    assert!(!files.is_empty(), "{sdk} has no files");
    (source, files)
}

pub(crate) fn gather(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !path.is_dir() {
            files.push(path);
        } else if !MADE.contains(&name.as_str()) {
            gather(&path, files);
        }
    }
}

pub(crate) fn digest(source: &Path, files: &[PathBuf]) -> String {
    let mut digest = Sha256::new();
    for file in files {
        digest.update(file.strip_prefix(source).unwrap().to_str().unwrap());
        digest.update([0]);
        digest.update(fs::read(file).unwrap());
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn copy(source: &Path, files: &[PathBuf], target: &Path) {
    for file in files {
        let place = target.join(file.strip_prefix(source).unwrap());
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(file, place).unwrap();
    }
}
