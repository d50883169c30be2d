//! How commands start in a sandbox unless they say otherwise.

use std::collections::BTreeMap;

/// What a template says about every command in its sandboxes. A sandbox's own environment and a
/// command's own wishes go before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecDefaults {
    pub env: BTreeMap<String, String>,
    /// The folder; the user's home if there is none.
    pub cwd: Option<String>,
    /// The user; root if there is none.
    pub user: Option<String>,
}
