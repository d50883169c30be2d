//! What differs between two sandboxes, as the API shows it.

use serde::{Deserialize, Serialize};

/// The answer to a comparison of two sandboxes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BranchDiff {
    pub sandbox_id: String,
    /// The other sandbox.
    pub with_id: String,
    /// The folders that were compared.
    pub paths: Vec<String>,
    /// By path. A changed folder is listed only if its kind or its permissions differ.
    pub files: Vec<FileDiff>,
    /// Whether there are more files than were compared or are listed.
    pub truncated: bool,
    /// Processes of the sandbox that the other one does not have.
    pub processes: Vec<RunningProgram>,
    /// Processes of the other sandbox that this one does not have.
    pub with_processes: Vec<RunningProgram>,
}

/// A file that two sandboxes do not share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileDiff {
    pub path: String,
    /// `added` if only the other sandbox has it, `removed` if only this one has it, or `changed`.
    pub change: String,
    /// One letter, as in listings: `f` file, `d` directory, `l` link, `o` anything else.
    pub mode: String,
    /// The size here, unless it was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The size in the other sandbox, unless it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_size: Option<u64>,
}

/// A process and its command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunningProgram {
    pub pid: u32,
    pub command: String,
}
