//! Default settings of commands in a sandbox.

use std::collections::BTreeMap;

/// A template's defaults for every command. The sandbox's environment and the command's own
/// settings override them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecDefaults {
    pub env: BTreeMap<String, String>,
    /// Working directory; the user's home if absent.
    pub cwd: Option<String>,
    /// User; root if absent.
    pub user: Option<String>,
}
