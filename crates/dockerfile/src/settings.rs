//! What a template says about the sandboxes made from it, as its build leaves it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The settings of a template. Stored as JSON with its row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The environment of every command.
    pub env: BTreeMap<String, String>,
    /// The folder commands start in.
    pub workdir: Option<String>,
    /// The user commands run as.
    pub user: Option<String>,
    /// What the template is meant to run.
    pub entrypoint: Vec<String>,
    pub cmd: Vec<String>,
    /// Whether it runs in every sandbox from the beginning.
    pub started: bool,
    /// Ports that are declared in every sandbox.
    pub ports: BTreeSet<u16>,
    pub labels: BTreeMap<String, String>,
}
