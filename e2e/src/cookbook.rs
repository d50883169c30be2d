//! The examples of the cookbook, with their libraries installed once, and their pages.

#![allow(clippy::unwrap_used, reason = "an example that cannot be installed is the end of a test")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use pandastack_testbed::TestServer;

use crate::{
    own_sdk::{TypeScriptSdk, copy, digest, gather},
    project,
    published::{kept, run},
};

/// The only example that is not written in Python.
const VERCEL: &str = "vercel_ai";

/// The libraries of the examples. Our own SDKs are used as they are in the project.
pub struct Cookbook {
    python: PathBuf,
    vercel: PathBuf,
}

impl Cookbook {
    pub fn installed() -> Self {
        Self { python: install_python(), vercel: install_vercel() }
    }

    /// The names of all examples, in the order of the alphabet.
    pub fn names() -> Vec<String> {
        let entries = fs::read_dir(project().join("examples")).unwrap().map(|entry| entry.unwrap().path());
        let examples = entries.filter(|path| path.is_dir() || path.extension().is_some_and(|end| end == "py"));
        let names = examples.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with(['_', '.'])).collect();
        names.sort();
        names
    }

    /// Runs an example in a folder. One that needs a model gets the recorded one.
    pub fn run(&self, name: &str, server: &TestServer, folder: &Path) -> Output {
        let model = project().join("examples/_model");
        let mut command = Command::new(self.python.join("bin/python"));
        if model.join("recordings").join(name).with_extension("toml").exists() {
            command.arg(model.join("play.py")).args([name, "--"]);
            if name != VERCEL {
                command.arg(self.python.join("bin/python"));
            }
        }
        if name == VERCEL {
            command.arg(self.vercel.join("node_modules/.bin/tsx")).arg(self.vercel.join("agent.ts"));
        } else {
            command.arg(project().join("examples").join(name).with_extension("py"));
        }
        // Whatever an example wants from the internet ends at a port where nobody listens.
        for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            command.env(proxy, "http://127.0.0.1:9");
        }
        command.env("NO_PROXY", "127.0.0.1,localhost").env("no_proxy", "127.0.0.1,localhost");
        command.env("PYTHONPATH", project().join("sdk/python/src")).env("PYTHONPYCACHEPREFIX", self.python.join("pyc"));
        command.env("PANDASTACK_API", &server.url).env("PANDASTACK_API_KEY", &server.key).env("HOME", folder);
        command.current_dir(folder).stdin(Stdio::null()).output().unwrap()
    }
}

/// The page of an example.
pub struct CookbookPage {
    text: String,
    pub file: String,
}

impl CookbookPage {
    pub fn of(example: &str) -> Self {
        let file = format!("docs/cookbook/{}.md", example.replace('_', "-"));
        let text = fs::read_to_string(project().join(&file));
        Self { text: text.unwrap_or_else(|error| panic!("{file}, the page of {example}: {error}")), file }
    }

    /// What the example prints, by the page.
    pub fn output(&self) -> String {
        let blocks = self.blocks("text");
        assert_eq!(blocks.len(), 1, "{}: an example has one block of output", self.file);
        masked(&blocks[0])
    }

    /// All blocks of a language.
    pub fn blocks(&self, language: &str) -> Vec<String> {
        let (mut blocks, mut inside) = (Vec::new(), None);
        for line in self.text.lines() {
            match (&mut inside, line.strip_prefix("```")) {
                (None, Some(found)) => inside = Some((found == language, String::new())),
                (None, None) => {}
                (Some((wanted, block)), Some(_)) => {
                    blocks.extend(wanted.then(|| std::mem::take(block)));
                    inside = None;
                }
                (Some((_, block)), None) => {
                    block.push_str(line);
                    block.push('\n');
                }
            }
        }
        blocks
    }
}

/// Replaces ids, which differ in every run, and spaces at the end of lines.
pub fn masked(text: &str) -> String {
    let is_id = |word: &str| word.len() == 36 && word.bytes().filter(|byte| *byte == b'-').count() == 4;
    let line = |line: &str| {
        let words = line.split(' ').map(|word| if is_id(word) { "ID" } else { word });
        words.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    };
    text.trim().lines().map(line).collect::<Vec<_>>().join("\n")
}

/// An environment with the frameworks. Without our SDK, so that a change of it installs nothing.
fn install_python() -> PathBuf {
    let source = project();
    let files = ["requirements.txt", "constraints.txt"].map(|name| source.join("examples").join(name));
    kept("cookbook-python", &digest(&source, &files), |folder| {
        run(Command::new("python3").args(["-m", "venv"]).arg(folder));
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
        run(pip.arg(&files[0]).arg("--constraint").arg(&files[1]));
    })
}

/// The folder of the TypeScript example, with its modules and a link to our SDK. Its types are
/// checked here.
fn install_vercel() -> PathBuf {
    let (source, sdk, mut files) = (project(), TypeScriptSdk::installed(), Vec::new());
    gather(&source.join("examples").join(VERCEL), &mut files);
    files.sort();
    let example = Path::new("examples").join(VERCEL);
    // The lock file of the example names the version of the SDK.
    let known = [&files[..], &[source.join("sdk/typescript/package.json")]].concat();
    let folder = kept("cookbook-typescript", &digest(&source, &known), |folder| {
        copy(&source, &files, folder);
        fs::create_dir(folder.join("sdk")).unwrap();
        std::os::unix::fs::symlink(sdk.folder(), folder.join("sdk/typescript")).unwrap();
        let npm = |words: &[&str]| run(Command::new("npm").args(words).current_dir(folder.join(&example)));
        npm(&["ci", "--silent"]);
        npm(&["run", "--silent", "check"]);
    });
    folder.join(example)
}
