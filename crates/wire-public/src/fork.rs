//! Forks, fork trees and promotion, as the API shows them.

use std::collections::BTreeMap;

use pandastack_model::Fault;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{
    Sandbox,
    failure::{bad, short},
    limits::{FORK_CHILDREN_MAX, TTL_SECONDS_MAX},
    metadata::{EXPLORE_TTL, metadata_of},
};

/// Default number of children of a fork tree.
const TREE_COUNT_DEFAULT: i64 = 2;

/// Forks a sandbox.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForkRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, Value>>,
}

/// A checked fork request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkSpec {
    pub count: usize,
    pub metadata: BTreeMap<String, String>,
    /// The children's idle limit until one of them is promoted.
    pub explore_ttl: Option<u64>,
}

/// The result of a fork. `sandbox` is the first child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fork {
    pub parent_id: String,
    #[serde(default)]
    pub snapshot_id: String,
    #[serde(default)]
    pub at: String,
    pub sandbox: Sandbox,
    #[serde(default)]
    pub children: Vec<Sandbox>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ForkFailure>,
}

/// The result of a fork tree. `children` lists only the children that run. The others are under
/// `errors`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForkTree {
    pub tree_id: String,
    pub parent_id: String,
    #[serde(default)]
    pub snapshot_id: String,
    #[serde(default)]
    pub at: String,
    pub children: Vec<Sandbox>,
    #[serde(default)]
    pub errors: Vec<ForkFailure>,
}

/// Why one child could not be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForkFailure {
    pub index: usize,
    pub err: String,
}

/// Keeps one child of a fork tree.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PromoteRequest {
    /// Whether to delete every other child of the tree.
    pub cleanup_siblings: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree_id: Option<String>,
}

/// The result of a promotion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Promotion {
    pub winner: String,
    /// Empty if the winner does not belong to a tree.
    #[serde(default)]
    pub tree_id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub deleted: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub failures: BTreeMap<String, String>,
}

/// All related sandboxes, starting with the oldest known ancestor. Parents come before their
/// children.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FamilyTree {
    pub sandbox_id: String,
    pub root_id: String,
    pub nodes: Vec<TreeNode>,
}

/// One sandbox of a family tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreeNode {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// The sandbox's status; `deleted` for an ancestor that is known only through its children.
    pub status: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub template: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_tree_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_index: Option<u32>,
    /// The label `name`, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it takes. Absent for an ancestor that is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<NodeCost>,
}

/// What one sandbox takes and costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeCost {
    pub cpu: u32,
    pub memory_mb: u64,
    /// Size of its disk as its guest sees it.
    pub disk_mb: u64,
    /// Memory that its machine held on the host at the last measurement. Absent without a machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_bytes: Option<u64>,
    /// List price of an hour in its present state, in dollars: before credit and included storage.
    pub usd_per_hour: f64,
}

impl ForkRequest {
    /// Checks a fork request. The default is one child.
    pub fn forks(self) -> Result<ForkSpec, Fault> {
        self.checked(1).map(|wish| ForkSpec { explore_ttl: None, ..wish })
    }

    /// Checks a request for a fork tree.
    pub fn tree(self) -> Result<ForkSpec, Fault> {
        self.checked(TREE_COUNT_DEFAULT)
    }

    fn checked(self, count_default: i64) -> Result<ForkSpec, Fault> {
        let Self { count, metadata } = self;
        let count = count.unwrap_or(count_default);
        let fits = usize::try_from(count).ok().filter(|count| (1..=FORK_CHILDREN_MAX).contains(count));
        let refused = || bad("fork.bad_count", format!("count must be 1 to {FORK_CHILDREN_MAX}, not {count}"));
        let count = fits.ok_or_else(refused)?;
        let metadata = metadata_of(metadata.unwrap_or_default())?;
        let explore_ttl = metadata.get(EXPLORE_TTL).map(|text| seconds(text)).transpose()?;
        Ok(ForkSpec { count, metadata, explore_ttl })
    }
}

fn seconds(text: &str) -> Result<u64, Fault> {
    let refused = || {
        let text = format!("metadata explore_ttl {:?} must be 0 to {TTL_SECONDS_MAX} seconds", short(text));
        bad("sandbox.bad_ttl", text)
    };
    text.parse().ok().filter(|seconds| *seconds <= TTL_SECONDS_MAX).ok_or_else(refused)
}

fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(input: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> ForkRequest {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn counts_have_defaults_and_limits() {
        assert_eq!(parse("{}").forks().unwrap().count, 1);
        assert_eq!(parse("{}").tree().unwrap().count, 2);
        assert_eq!(parse(r#"{"count":16}"#).tree().unwrap().count, 16);
        for bad in ["0", "17", "-1"] {
            assert_eq!(parse(&format!(r#"{{"count":{bad}}}"#)).tree().unwrap_err().code, "fork.bad_count", "{bad}");
        }
    }

    #[test]
    fn the_explore_limit_is_read_for_trees_only() {
        let ask = r#"{"metadata":{"explore_ttl":"90","explore":"1"}}"#;
        assert_eq!(parse(ask).tree().unwrap().explore_ttl, Some(90));
        assert_eq!(parse(ask).forks().unwrap().explore_ttl, None);
        for bad in ["soon", "-1", "", "99999999999"] {
            let ask = format!(r#"{{"metadata":{{"explore_ttl":"{bad}"}}}}"#);
            assert_eq!(parse(&ask).tree().unwrap_err().code, "sandbox.bad_ttl", "{bad}");
        }
    }
}
