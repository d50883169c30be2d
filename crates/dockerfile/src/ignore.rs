//! Patterns for paths of the context, and `.dockerignore`, which hides files from a Dockerfile. The
//! last pattern that matches decides. A pattern that matches a folder matches everything below it.

use globset::{Glob, GlobBuilder, GlobMatcher, GlobSet};

use crate::{
    context::ContextFile,
    limits::{IGNORE_BYTES_MAX, IGNORE_PATTERNS_MAX},
};

/// Path of the list in the context.
pub const IGNORE: &str = ".dockerignore";

/// The patterns of a `.dockerignore`.
#[derive(Debug)]
pub struct IgnorePatterns {
    patterns: GlobSet,
    /// Whether each pattern is an exception (`!`), in their order.
    back: Vec<bool>,
}

impl IgnorePatterns {
    /// Parses a list.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        if text.len() > IGNORE_BYTES_MAX {
            return Err(format!("the file is larger than {IGNORE_BYTES_MAX} bytes"));
        }
        let text = std::str::from_utf8(text).map_err(|_| "the file is not UTF-8".to_owned())?;
        let (mut patterns, mut back) = (GlobSet::builder(), Vec::new());
        for line in text.trim_start_matches('\u{feff}').lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (brings_back, pattern) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest.trim()));
            // Paths are relative to the context, in whatever form they are written.
            let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
            if parts.is_empty() {
                continue;
            }
            patterns.add(compiled(&parts.join("/"))?);
            back.push(brings_back);
            if back.len() > IGNORE_PATTERNS_MAX {
                return Err(format!("the file has more than {IGNORE_PATTERNS_MAX} patterns"));
            }
        }
        Ok(Self { patterns: patterns.build().map_err(|error| error.to_string())?, back })
    }

    /// Removes the hidden files.
    pub fn remove_ignored(&self, files: &mut Vec<ContextFile>) {
        files.retain(|file| !self.hides(&file.path));
    }

    fn hides(&self, path: &str) -> bool {
        let folders = path.match_indices('/').map(|(end, _)| &path[..end]);
        let fitting = folders.chain([path]).flat_map(|path| self.patterns.matches(path));
        fitting.max().is_some_and(|last| !self.back[last])
    }
}

/// Compiles a pattern for one part of a path: `*`, `?`, `[a-z]`, `[^x]`, `\` before a character.
pub fn glob(pattern: &str) -> Result<GlobMatcher, String> {
    compiled(pattern).map(|glob| glob.compile_matcher())
}

fn compiled(pattern: &str) -> Result<Glob, String> {
    // Braces are literal.
    let pattern = pattern.replace('{', "[{]").replace('}', "[}]");
    let built = GlobBuilder::new(&pattern).literal_separator(true).backslash_escape(true).build();
    built.map_err(|error| {
        format!("{:?} is not a valid pattern: {}", pattern.chars().take(200).collect::<String>(), error.kind())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_a_shell() {
        for (pattern, name) in [
            ("*", "x"),
            ("a*c", "abbc"),
            ("?b", "ab"),
            ("[a-c]x", "bx"),
            ("[^a]x", "bx"),
            ("[!a]x", "bx"),
            ("\\*", "*"),
            ("**b", "ab"),
            ("a*", "a"),
            ("{a,b}", "{a,b}"),
        ] {
            assert!(glob(pattern).unwrap().is_match(name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("a", "b"), ("a*c", "ab"), ("?", ""), ("[a-c]", "d"), ("", "x"), ("x", ""), ("*", "a/b")]
        {
            assert!(!glob(pattern).unwrap().is_match(name), "{pattern} {name}");
        }
        assert!(glob("[a").unwrap_err().contains("not a valid pattern"));
        assert!(!glob(&"*a".repeat(30)).unwrap().is_match("a".repeat(20)));
    }

    /// Checks which of a few files are left.
    #[track_caller]
    fn check(list: &str, left: &[&str]) {
        let paths = ["Dockerfile", "README.md", "docs/README.md", "docs/a.txt", "src/deep/x.log", "src/x.py", "x.log"];
        let file = |path: &&str| ContextFile {
            path: (*path).to_owned(),
            digest: String::new(),
            bytes: 0,
            program: false,
            part: 0,
        };
        let mut files: Vec<ContextFile> = paths.iter().map(file).collect();
        IgnorePatterns::parse(list.as_bytes()).unwrap().remove_ignored(&mut files);
        assert_eq!(files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), left, "{list:?}");
    }

    #[test]
    fn a_list_hides_files_and_everything_below_folders() {
        let src = ["src/deep/x.log", "src/x.py"];
        check("# all of it\n\ndocs\n*.md\nDockerfile\n", &["src/deep/x.log", "src/x.py", "x.log"]);
        check("/docs/\n./README.md\r\nDockerfile\nx.log", &src);
        check("**/*.log\nDockerfile", &["README.md", "docs/README.md", "docs/a.txt", "src/x.py"]);
        check("*/*.md\n*\n!src\n", &src);
        check("docs\n!docs/README.md\nsrc\nx.log\nDockerfile", &["README.md", "docs/README.md"]);
        check("!docs\ndocs\nsrc/**\n*.*", &["Dockerfile"]);
    }

    #[test]
    fn lists_that_cannot_be_read_are_refused() {
        assert!(IgnorePatterns::parse(b"[a").is_err());
        assert!(IgnorePatterns::parse(b"\xff").is_err());
        assert!(IgnorePatterns::parse("a\n".repeat(IGNORE_PATTERNS_MAX + 1).as_bytes()).is_err());
        assert!(IgnorePatterns::parse(&vec![b'#'; IGNORE_BYTES_MAX + 1]).is_err());
    }
}
