//! Runs checks with a published client.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use pandastack_e2e::{
    own_sdk::{PythonSdk, TypeScriptSdk},
    published::{node, python, python_with_mcp, typescript},
};
use pandastack_testbed::{DataFolder, TestServer, built};

/// Templates that clients use by default. Here they all mean `mini`: the checks are about the API,
/// and `mini` is small.
const DEFAULT_TEMPLATES: [&str; 2] = ["code-interpreter", "ubuntu-24.04"];

/// A published client.
#[derive(Clone, Copy)]
pub enum Client {
    Python,
    TypeScript,
    /// Our own SDKs, in the place of the published ones.
    OwnPython,
    OwnTypeScript,
    /// The command that comes with the TypeScript client.
    CommandLine,
    /// The official client of the Model Context Protocol.
    Tools,
}

/// Options of a check's server.
pub struct Serve {
    arguments: Vec<String>,
}

impl Default for Serve {
    fn default() -> Self {
        Self::with(&["--standby", "1", "--blanks", "1"])
    }
}

impl Serve {
    pub fn with(arguments: &[&str]) -> Self {
        Self { arguments: arguments.iter().map(|word| (*word).to_owned()).collect() }
    }

    /// Promises so little memory that a few sandboxes fill the host, whatever its size.
    pub fn little_memory() -> Self {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap();
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
        let total_mib = total.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024;
        let percent = 64_000_u64.div_ceil(total_mib);
        Self::with(&["--overcommit", &percent.to_string(), "--standby", "0", "--blanks", "0"])
    }
}

impl Client {
    /// Runs checks one after the other against one server, and tells of all that fail. None finds a
    /// sandbox of an earlier one.
    pub fn check(self, names: &[&str], serve: &Serve) {
        let data = DataFolder::with_templates().unwrap();
        let templates = data.path().join("volume/templates");
        for alias in DEFAULT_TEMPLATES {
            if !templates.join(alias).exists() {
                std::fs::copy(templates.join("mini"), templates.join(alias)).unwrap();
            }
        }
        let arguments: Vec<&str> = serve.arguments.iter().map(String::as_str).collect();
        let server = TestServer::start(data.path(), &arguments).unwrap();
        let mut failed = Vec::new();
        for name in names {
            failed.extend(self.run(name, &server).err());
            delete_sandboxes(&server);
        }
        assert!(failed.is_empty(), "{}\nserver: {}", failed.join("\n"), server.said());
    }

    /// Runs one check. The error is what it said.
    fn run(self, name: &str, server: &TestServer) -> Result<(), String> {
        let home = tempfile::tempdir().unwrap();
        let mut command = self.command(home.path());
        command.arg(name).env("HOME", home.path()).env("PYTHONIOENCODING", "utf-8");
        let output = with_access(&mut command, server).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let checked = output.status.success() && out.contains(&format!("checked: {name}"));
        if checked { Ok(()) } else { Err(format!("{name}: {out}{err}")) }
    }

    fn command(self, home: &Path) -> Command {
        let script = |name: &str| scripts().join(name);
        match self {
            Self::Python => {
                let mut command = Command::new(python());
                command.arg(script("checks.py"));
                command
            }
            Self::OwnPython => {
                let mut command = PythonSdk::installed().command("python");
                command.arg(script("checks.py"));
                command
            }
            Self::Tools => {
                let mut command = Command::new(python_with_mcp());
                command.arg(script("checks_mcp.py"));
                command
            }
            Self::TypeScript => javascript(home, &typescript().join("node_modules/@pandastack/sdk")),
            Self::OwnTypeScript => javascript(home, TypeScriptSdk::installed().folder()),
            Self::CommandLine => {
                let mut command = Command::new("python3");
                command.arg(script("checks_cli.py")).env("NODE", node());
                command.env("CLI", typescript().join("node_modules/@pandastack/sdk/dist/cli.js"));
                command
            }
        }
    }
}

/// Lets a program find a server.
fn with_access<'a>(command: &'a mut Command, server: &TestServer) -> &'a mut Command {
    command.env("PANDASTACK_API", &server.url).env("PANDASTACK_API_KEY", &server.key);
    // A proxy must not be used for a server on loopback.
    command.env("NO_PROXY", "*").stdin(Stdio::null())
}

fn delete_sandboxes(server: &TestServer) {
    let run = |words: &[&str]| with_access(Command::new(built("pandastack")).args(words), server).output().unwrap();
    let listed = run(&["sandbox", "list", "--quiet"]);
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    for id in String::from_utf8(listed.stdout).unwrap().lines() {
        // A failed one may be gone already.
        run(&["sandbox", "delete", id]);
    }
}

/// Runs the checks of TypeScript with a package.
fn javascript(home: &Path, package: &Path) -> Command {
    // Modules are searched beside the script that imports them.
    let (place, modules) = (home.join("check.mjs"), home.join("node_modules/@pandastack"));
    std::fs::copy(scripts().join("checks.mjs"), &place).unwrap();
    std::fs::create_dir_all(&modules).unwrap();
    std::os::unix::fs::symlink(package, modules.join("sdk")).unwrap();
    let mut command = Command::new("node");
    command.arg(place);
    command
}

/// The folder of the scripts. Read at run time: clones share one target folder, so a compiled-in
/// path may be another clone's.
fn scripts() -> PathBuf {
    Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("tests/published")
}
