//! The settings that a template's build leaves for its sandboxes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The settings of a template. Stored as JSON with its row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TemplateSettings {
    /// The environment of every command.
    pub env: BTreeMap<String, String>,
    /// The working directory of commands.
    pub workdir: Option<String>,
    /// The user of commands.
    pub user: Option<String>,
    /// The template's command: `ENTRYPOINT` and `CMD`.
    pub entrypoint: Vec<String>,
    pub cmd: Vec<String>,
    /// Whether the command already runs when a sandbox starts.
    pub started: bool,
    /// Ports that are declared in every sandbox.
    pub ports: BTreeSet<u16>,
    pub labels: BTreeMap<String, String>,
}
