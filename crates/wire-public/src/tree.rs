//! Operations on whole folders: create, move, permissions, watch, archives. An extension of the
//! published API.

use pandastack_model::{Fault, FaultKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Permission bits that a caller may set.
const MODE_MAX: u32 = 0o7777;

/// Creates a folder.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MakeDir {
    pub path: Option<String>,
    /// Whether to create missing parent folders. An existing folder is then not an error.
    pub parents: bool,
}

/// Moves or renames a path.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MovePath {
    pub from: Option<String>,
    pub to: Option<String>,
    /// Whether to replace an existing file.
    pub overwrite: bool,
}

/// Sets permission bits.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Chmod {
    pub path: Option<String>,
    /// Octal digits as text, such as `"0755"`.
    pub mode: Value,
    /// Whether to apply them to everything below the path too.
    pub recursive: bool,
}

impl Chmod {
    /// Returns the bits. Only text is accepted, because a JSON number could mean octal or decimal.
    pub fn bits(&self) -> Result<u32, Fault> {
        octal_mode(self.mode.as_str().unwrap_or_default())
    }
}

/// Reads octal permission bits.
pub fn octal_mode(text: &str) -> Result<u32, Fault> {
    let digits = (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text);
    match digits.and_then(|digits| u32::from_str_radix(digits, 8).ok()) {
        Some(mode) if mode <= MODE_MAX => Ok(mode),
        _ => Err(Fault::new(
            FaultKind::Caller,
            "fs.bad_mode",
            "mode must be octal permission bits in text such as \"0644\"",
        )),
    }
}

/// The result of a change to a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Changed {
    pub path: String,
}

/// Data of a `change` event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// `created`, `modified`, `written` (closed after writing), `deleted`, `moved_from`,
    /// `moved_to`, `attributes`.
    #[serde(rename = "type")]
    pub kind: String,
    pub path: String,
    pub is_dir: bool,
    /// The same number in both events of a move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<u32>,
}

/// Data of the `ready` and `overflow` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchNote {
    pub path: String,
}

/// The result of unpacking an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unpacked {
    pub path: String,
    pub entries: u64,
    /// Total size of the unpacked files.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal_text() {
        let bits = |json: &str| serde_json::from_str::<Chmod>(json).unwrap().bits().ok();
        assert_eq!(bits(r#"{"mode":"0755"}"#), Some(0o755));
        assert_eq!(bits(r#"{"mode":"4755"}"#), Some(0o4755));
        for bad in [
            r#"{}"#,
            r#"{"mode":755}"#,
            r#"{"mode":"+755"}"#,
            r#"{"mode":"10000"}"#,
            r#"{"mode":"rwx"}"#,
            r#"{"mode":""}"#,
        ] {
            assert_eq!(bits(bad), None, "{bad}");
        }
    }
}
