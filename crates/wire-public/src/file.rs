//! Files in a guest as the API shows them.

use pandastack_model::{Fault, FaultKind};
use serde::{Deserialize, Serialize};

use crate::limits::PATH_BYTES_MAX;

/// One file or directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Entry {
    pub name: String,
    pub path: String,
    /// False for a link to a directory.
    pub is_dir: bool,
    pub size: u64,
    /// One letter: `f` file, `d` directory, `l` link, `o` anything else.
    pub mode: String,
    /// Permission bits in octal, such as `0644`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub permissions: String,
    /// Unix seconds.
    pub mtime: i64,
    /// The target of a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// The answer to a directory listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DirListing {
    pub path: String,
    pub entries: Vec<Entry>,
    /// Whether a recursive listing is incomplete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// The answer to a file write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Written {
    pub path: String,
    pub bytes: u64,
}

/// Accepts an absolute path that is valid on Linux.
pub fn checked_path(path: Option<String>) -> Result<String, Fault> {
    let bad = |text: &str| Err(Fault::new(FaultKind::Caller, "fs.bad_path", text));
    match path {
        None => bad("path required"),
        Some(path) if path.is_empty() => bad("path required"),
        Some(path) if !path.starts_with('/') => bad("path must be absolute: start it with /"),
        Some(path) if path.contains('\0') => bad("path must not contain a NUL byte"),
        Some(path) if path.len() > PATH_BYTES_MAX => bad("path is longer than 4096 bytes"),
        Some(path) => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_paths_pass() {
        assert_eq!(checked_path(Some("/a b/é".into())).unwrap(), "/a b/é");
        let long = format!("/{}", "x".repeat(PATH_BYTES_MAX));
        for path in [None, Some(""), Some("etc/passwd"), Some("/a\0b"), Some(long.as_str())] {
            assert_eq!(checked_path(path.map(str::to_owned)).unwrap_err().kind, FaultKind::Caller, "{path:?}");
        }
    }
}
