//! PostgreSQL drivers with the programs that use them: pinned versions, installed once for each
//! state of their files.

#![allow(clippy::unwrap_used, reason = "a driver that cannot be installed is the end of a test")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    own_sdk::{copy, digest, gather},
    project,
    published::{kept, run},
};

/// The folder of the programs, one folder for each language or tool.
pub fn sources() -> PathBuf {
    project().join("e2e/tests/databases/clients")
}

/// Folder with the programs in Python, and an environment in `venv`.
pub fn python() -> PathBuf {
    installed("python", |folder| {
        run(Command::new("python3").args(["-m", "venv"]).arg(folder.join("venv")));
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"];
        run(Command::new(folder.join("venv/bin/python")).args(install).current_dir(folder));
    })
}

/// Folder with the programs in JavaScript.
pub fn node() -> PathBuf {
    installed("node", install_packages)
}

/// Folder with the program for Prisma, and the client that was made from its schema.
pub fn prisma() -> PathBuf {
    installed("prisma", |folder| {
        install_packages(folder);
        let mut generate = Command::new(folder.join("node_modules/.bin/prisma"));
        generate.args(["generate", "--schema", "schema.prisma"]).current_dir(folder);
        // It would fetch a program for migrations, which nothing here uses, and ask for updates.
        run(generate.env("PRISMA_SCHEMA_ENGINE_BINARY", "/bin/true").env("CHECKPOINT_DISABLE", "1"));
    })
}

/// Folder with the built programs in Rust.
pub fn rust() -> PathBuf {
    let folder = installed("rust", |folder| {
        let mut build = Command::new("cargo");
        build.args(["build", "--quiet", "--locked"]).current_dir(folder);
        run(build.env("CARGO_TARGET_DIR", folder.join("target")));
    });
    folder.join("target/debug")
}

fn install_packages(folder: &Path) {
    let install = ["ci", "--silent", "--no-fund", "--no-audit", "--ignore-scripts"];
    run(Command::new("npm").args(install).current_dir(folder));
}

fn installed(name: &str, install: impl FnOnce(&Path)) -> PathBuf {
    let (source, mut files) = (sources().join(name), Vec::new());
    gather(&source, &mut files);
    files.sort();
    kept(&format!("database-{name}"), &digest(&source, &files), |folder| {
        copy(&source, &files, folder);
        install(folder);
    })
}
