//! The files of a build's context, and the ones that a `COPY` selects. Paths are only names in the
//! context: nothing here touches a file.

use std::collections::HashMap;

use globset::GlobMatcher;

use crate::{ignore::glob, limits::CONTEXT_PATH_BYTES_MAX};

/// One file of the context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextFile {
    /// Relative, without `.` and `..`.
    pub path: String,
    /// Digest of its contents.
    pub digest: String,
    pub bytes: u64,
    /// Whether it looks like a program. Uploads carry no modes.
    pub program: bool,
    /// Number of the spooled file that holds it.
    pub part: usize,
}

/// A file that a source selects, and its name below the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedFile {
    /// Index into the context.
    pub file: usize,
    pub name: String,
}

/// The files that one source selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedFiles {
    pub files: Vec<MatchedFile>,
    /// Whether the destination must be a folder: the source is a folder or a pattern.
    pub many: bool,
}

/// Normalises a path from an upload. Refuses absolute paths and paths that lead outside.
pub fn checked(path: &str) -> Result<String, String> {
    let refused = |why: &str| Err(format!("context path {:?} {why}", path.chars().take(200).collect::<String>()));
    if path.is_empty() || path.len() > CONTEXT_PATH_BYTES_MAX {
        return refused(&format!("must have 1 to {CONTEXT_PATH_BYTES_MAX} bytes"));
    }
    if path.starts_with('/') || path.contains(['\0', '\\']) {
        return refused("must be relative and use / as the separator");
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return refused("leads outside the build context");
    }
    if parts.is_empty() || path.ends_with('/') {
        return refused("does not name a file");
    }
    Ok(parts.join("/"))
}

/// Resolves a source: a file, everything below a folder, or everything that matches a pattern.
pub fn find(files: &[ContextFile], source: &str) -> Result<MatchedFiles, String> {
    let parts: Vec<&str> = source.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err(format!("{:?} leads outside the build context", shown(source)));
    }
    let pattern = parts.iter().any(|part| part.contains(['*', '?', '[']));
    let fitting: Vec<GlobMatcher> = parts.iter().map(|part| glob(part)).collect::<Result<_, _>>()?;
    let mut meant: Vec<MatchedFile> = Vec::new();
    let (mut many, mut places) = (pattern, HashMap::new());
    for (file, entry) in files.iter().enumerate() {
        let names: Vec<&str> = entry.path.split('/').collect();
        let fits = names.len() >= parts.len() && fitting.iter().zip(&names).all(|(part, name)| part.is_match(name));
        if !fits {
            continue;
        }
        let name = if names.len() == parts.len() {
            names[names.len() - 1].to_owned()
        } else {
            many = true;
            names[parts.len()..].join("/")
        };
        // Later files of the same name win, as if copied one after the other.
        match places.insert(name.clone(), meant.len()) {
            Some(before) => {
                places.insert(name, before);
                meant[before].file = file;
            }
            None => meant.push(MatchedFile { file, name }),
        }
    }
    if meant.is_empty() {
        return Err(format!("{:?} does not exist in the build context", shown(source)));
    }
    Ok(MatchedFiles { many, files: meant })
}

/// Shortens a source for a message.
fn shown(source: &str) -> String {
    source.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(paths: &[&str]) -> Vec<ContextFile> {
        let file = |(part, path): (usize, &&str)| ContextFile {
            path: (*path).to_owned(),
            digest: String::new(),
            bytes: 0,
            program: false,
            part,
        };
        paths.iter().enumerate().map(file).collect()
    }

    fn check(source: &str, expected: &[(usize, &str)], many: bool) {
        let files = files(&["a.txt", "b.txt", "src/x.py", "src/deep/y.py", "Dockerfile"]);
        let found = find(&files, source).unwrap();
        let names: Vec<_> = found.files.iter().map(|meant| (meant.file, meant.name.as_str())).collect();
        assert_eq!((names.as_slice(), found.many), (expected, many), "{source}");
    }

    #[test]
    fn sources_are_files_folders_and_patterns() {
        check("a.txt", &[(0, "a.txt")], false);
        check("./a.txt", &[(0, "a.txt")], false);
        check("/a.txt", &[(0, "a.txt")], false);
        check("*.txt", &[(0, "a.txt"), (1, "b.txt")], true);
        check("src", &[(2, "x.py"), (3, "deep/y.py")], true);
        check("src/", &[(2, "x.py"), (3, "deep/y.py")], true);
        check("src/deep/y.py", &[(3, "y.py")], false);
        check("s*/x.py", &[(2, "x.py")], true);
        check(".", &[(0, "a.txt"), (1, "b.txt"), (2, "src/x.py"), (3, "src/deep/y.py"), (4, "Dockerfile")], true);
        assert!(find(&files(&["a"]), "b").unwrap_err().contains("does not exist in the build context"));
        assert!(find(&files(&["a"]), "../a").unwrap_err().contains("outside"));
    }

    #[test]
    fn paths_that_lead_outside_are_refused() {
        assert_eq!(checked("a/./b//c").unwrap(), "a/b/c");
        for bad in ["", "/etc/passwd", "../x", "a/../../x", "a/", ".", "a\\b", "x\0", &"x".repeat(2000)] {
            assert!(checked(bad).is_err(), "{bad:?}");
        }
    }
}
