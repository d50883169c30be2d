//! The published clients: pinned versions, installed once into a cache.

#![allow(clippy::unwrap_used, reason = "a client that cannot be installed is the end of a test")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const PYTHON_CLIENT: &str = "pandastack==0.10.0";
const MCP_CLIENT: &str = "mcp==2.3.0";
const SCHEMATHESIS: &str = "schemathesis==4.32.5";
const TYPESCRIPT_CLIENT: &str = "@pandastack/sdk@0.9.0";

/// Path of Node, for a program that is started without a shell.
pub fn node() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|folder| folder.join("node")).find(|file| file.exists()).unwrap()
}

/// A Python with the client.
pub fn python() -> PathBuf {
    python_with("python-client", PYTHON_CLIENT)
}

/// A Python with the client of the Model Context Protocol.
pub fn python_with_mcp() -> PathBuf {
    python_with("mcp-client", MCP_CLIENT)
}

/// The program that tests an API against its document.
pub fn schemathesis() -> PathBuf {
    python_with("schemathesis", SCHEMATHESIS).with_file_name("schemathesis")
}

fn python_with(name: &str, package: &str) -> PathBuf {
    let folder = kept(name, package, |folder| {
        run(Command::new("python3").args(["-m", "venv"]).arg(folder));
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package];
        run(Command::new(folder.join("bin/python")).args(install));
    });
    folder.join("bin/python")
}

/// A folder whose `node_modules` has the client and its command.
pub fn typescript() -> PathBuf {
    kept("typescript-client", TYPESCRIPT_CLIENT, |folder| {
        let install = ["install", "--silent", "--no-fund", "--no-audit", "--ignore-scripts", TYPESCRIPT_CLIENT];
        run(Command::new("npm").args(install).arg("--prefix").arg(folder));
    })
}

/// A folder with the TypeScript client of the Model Context Protocol, and a copy of the checks that
/// use it. `source` has both, and the versions of all packages.
pub fn mcp_typescript(source: &Path) -> PathBuf {
    node_project("mcp-typescript", source)
}

/// A folder with the library that drives a browser, and a copy of the checks that use it.
pub fn browser_driver(source: &Path) -> PathBuf {
    node_project("browser-driver", source)
}

/// Copies the program `checks.mjs` of a folder, and installs its packages beside it.
fn node_project(name: &str, source: &Path) -> PathBuf {
    let files = ["package.json", "package-lock.json", "checks.mjs"];
    let state: String = files.iter().map(|file| std::fs::read_to_string(source.join(file)).unwrap()).collect();
    kept(name, &state, |folder| {
        for file in files {
            std::fs::copy(source.join(file), folder.join(file)).unwrap();
        }
        let install = ["ci", "--silent", "--no-fund", "--no-audit", "--ignore-scripts"];
        run(Command::new("npm").args(install).current_dir(folder));
    })
}

/// Finds an installed client, or installs it. A partial installation is never used, and parallel
/// tests install it only once.
pub(crate) fn kept(name: &str, what: &str, install: impl FnOnce(&Path)) -> PathBuf {
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    let cache = std::env::var_os("PANDASTACK_CACHE_DIR").map_or_else(|| home.join(".cache/pandastack"), PathBuf::from);
    std::fs::create_dir_all(&cache).unwrap();
    let lock = std::fs::File::create(cache.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let folder = cache.join(name);
    let complete = folder.join("complete");
    if std::fs::read_to_string(&complete).unwrap_or_default() != what {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        install(&folder);
        std::fs::write(complete, what).unwrap();
    }
    folder
}

pub(crate) fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
