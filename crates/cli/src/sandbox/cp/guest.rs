//! Small commands in the sandbox. The API reads and writes whole files only, so that the parts of a
//! large file are cut and joined there.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use pandastack_client::wire::{Entry, ExecRequest, ExecResponse};
use pandastack_kit::random_hex;

use super::CopyJob;
use crate::advice::advise;

/// Joins a piece to a file and removes it.
const JOIN: &str = r#"cat -- "$1" >> "$2" && rm -f -- "$1""#;
/// Copies a part of a file.
const CUT: &str = r#"tail -c "+$2" -- "$1" | head -c "$3" > "$4""#;

/// Prints the digests of files below a directory.
const DIGESTS: &str = r#"cd "$1" && shift && exec sha256sum -- "$@""#;
/// How a shell says that there is no such program.
const NO_PROGRAM: i32 = 127;

impl CopyJob<'_> {
    /// Describes a path; `None` if there is nothing.
    pub async fn stat(&self, path: &str) -> anyhow::Result<Option<Entry>> {
        match self.client.stat(self.id, path).await {
            Ok(entry) => Ok(Some(entry)),
            Err(error) if error.code() == Some("path.not_found") => Ok(None),
            Err(error) => Err(advise(error)),
        }
    }

    /// Appends one file to another and removes it.
    pub async fn join(&self, piece: &str, whole: &str) -> anyhow::Result<()> {
        self.shell(JOIN, &[piece, whole]).await.context("join the pieces in the sandbox")
    }

    /// Writes bytes of a file to another file.
    pub async fn cut(&self, path: &str, offset: u64, bytes: u64, to: &str) -> anyhow::Result<()> {
        // `tail` counts from 1.
        let (from, bytes) = ((offset + 1).to_string(), bytes.to_string());
        self.shell(CUT, &[path, &from, &bytes, to]).await.context("read the rest of the file in the sandbox")
    }

    /// Reads files below a directory and returns their SHA-256 in hex. Files that cannot be read
    /// are left out. `None` if the sandbox has no program for it.
    pub async fn digests(&self, root: &str, paths: &[&Path]) -> anyhow::Result<Option<HashMap<PathBuf, String>>> {
        // The program prints these letters in a form of its own.
        let names = paths.iter().filter_map(|path| path.to_str()).filter(|name| !name.contains(['\n', '\r', '\\']));
        let words: Vec<_> = std::iter::once(root).chain(names).collect();
        if words.len() == 1 {
            return Ok(Some(HashMap::new()));
        }
        let ran = self.run(DIGESTS, &words).await.context("compare files in the sandbox")?;
        Ok((ran.exit_code != NO_PROGRAM).then(|| digests_of(&ran.stdout)))
    }

    /// A path that nothing has yet.
    pub fn scratch(&self) -> String {
        format!("/tmp/.pandastack-cp-{}", random_hex::<8>())
    }

    async fn shell(&self, script: &str, words: &[&str]) -> anyhow::Result<()> {
        let ran = self.run(script, words).await?;
        if ran.exit_code != 0 {
            bail!("exit code {}: {}", ran.exit_code, ran.stderr.trim());
        }
        Ok(())
    }

    async fn run(&self, script: &str, words: &[&str]) -> anyhow::Result<ExecResponse> {
        let argv = ["sh", "-c", script, "sh"].iter().chain(words).map(|word| (*word).to_owned()).collect();
        let ask = ExecRequest { argv: Some(argv), ..ExecRequest::default() };
        self.client.exec(self.id, &ask).await.map_err(advise)
    }
}

/// Reads lines of a digest, two spaces and a path.
fn digests_of(text: &str) -> HashMap<PathBuf, String> {
    let pair = |line: &str| line.split_once("  ").map(|(digest, path)| (PathBuf::from(path), digest.to_owned()));
    text.lines().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_have_spaces() {
        let digests = digests_of("ab12  a  b/c \ncd34  -x\n[output truncated]\n");
        assert_eq!(digests.len(), 2);
        assert_eq!(digests[Path::new("a  b/c ")], "ab12");
        assert_eq!(digests[Path::new("-x")], "cd34");
    }
}
