//! Metadata of sandboxes: keys that callers may set, keys that only the server sets, and keys that
//! are write-only.

use std::collections::BTreeMap;

use pandastack_model::Fault;
use serde_json::Value;

use crate::{
    failure::{bad, short},
    limits::{METADATA_ENTRIES_MAX, METADATA_KEY_BYTES_MAX, METADATA_VALUE_BYTES_MAX},
};

/// Prefix of write-only keys. Their values are never returned.
const SECRET_PREFIX: &str = "secret.";

pub const FORK_TREE_ID: &str = "fork_tree_id";
pub const FORK_TREE_ROLE: &str = "fork_tree_role";
pub const FORK_PARENT_ID: &str = "fork_parent_id";
pub const FORK_INDEX: &str = "fork_index";
pub const FORKED_FROM: &str = "forked_from";

/// Set by callers: the idle limit of a fork tree's children until one of them is promoted.
pub const EXPLORE_TTL: &str = "explore_ttl";

/// Keys that only the server sets. A caller's value is dropped, as published clients expect.
const SERVER_KEYS: [&str; 9] =
    ["workspace", FORK_TREE_ID, FORK_TREE_ROLE, FORK_PARENT_ID, FORK_INDEX, FORKED_FROM, "fork_mode", "kind", "app.id"];

/// Prefix of the server's keys for declared ports.
pub(crate) const PORT_PREFIX: &str = "port.";

/// Returns the metadata without the write-only keys.
pub fn visible_metadata(metadata: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    metadata.iter().filter(|(key, _)| !key.starts_with(SECRET_PREFIX)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// Checks a caller's metadata.
pub(crate) fn metadata_of(asked: BTreeMap<String, Value>) -> Result<BTreeMap<String, String>, Fault> {
    const CODE: &str = "sandbox.bad_metadata";
    if asked.len() > METADATA_ENTRIES_MAX {
        return Err(bad(
            CODE,
            format!("metadata has {} entries; at most {METADATA_ENTRIES_MAX} are allowed", asked.len()),
        ));
    }
    let mut metadata = BTreeMap::new();
    for (key, value) in asked {
        let shown = short(&key);
        let Value::String(value) = value else {
            return Err(bad(CODE, format!("the value of metadata {shown:?} must be a string")));
        };
        if key.is_empty() || key.len() > METADATA_KEY_BYTES_MAX {
            return Err(bad(CODE, format!("metadata key {shown:?} must have 1 to {METADATA_KEY_BYTES_MAX} bytes")));
        }
        if value.len() > METADATA_VALUE_BYTES_MAX {
            return Err(bad(
                CODE,
                format!("the value of metadata {shown:?} is longer than {METADATA_VALUE_BYTES_MAX} bytes"),
            ));
        }
        if !SERVER_KEYS.contains(&key.as_str()) && !key.starts_with(PORT_PREFIX) {
            metadata.insert(key, value);
        }
    }
    Ok(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_keys_are_dropped_and_secrets_are_hidden() {
        let asked =
            [("a", "1"), (FORK_TREE_ID, "forged"), ("port.80", "forged"), ("secret.k", "hidden"), (EXPLORE_TTL, "60")];
        let asked = asked.map(|(key, value)| (key.to_owned(), Value::String(value.to_owned())));
        let metadata = metadata_of(asked.into()).unwrap();
        assert_eq!(metadata.keys().collect::<Vec<_>>(), ["a", EXPLORE_TTL, "secret.k"]);
        assert_eq!(visible_metadata(&metadata).len(), 2);
    }
}
