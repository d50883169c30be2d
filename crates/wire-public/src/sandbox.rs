//! The sandbox object and the request that makes one. A request is checked here, once.

use std::collections::BTreeMap;

use pandastack_model::{Egress, Fault, FaultKind, Origin, SandboxSpec, TTL_SECONDS_DEFAULT, TemplateName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::{
    ENV_BYTES_MAX, ENV_ENTRIES_MAX, METADATA_ENTRIES_MAX, METADATA_KEY_BYTES_MAX, METADATA_VALUE_BYTES_MAX,
    TTL_SECONDS_MAX,
};

/// Metadata keys that start with this are never shown again.
const SECRET_PREFIX: &str = "secret.";
/// Metadata keys that only the server sets; a caller's value for one is dropped, as published clients expect.
const SERVER_KEYS: [&str; 9] = [
    "workspace",
    "fork_tree_id",
    "fork_tree_role",
    "fork_parent_id",
    "fork_index",
    "forked_from",
    "fork_mode",
    "kind",
    "app.id",
];

/// A sandbox as create, list and get show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    pub id: String,
    pub template: String,
    /// The template's real size.
    pub cpu: u32,
    pub memory_mb: u64,
    /// `creating`, `running`, `stopping` or `failed`.
    pub status: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_reason: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub guest_ip: String,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    pub created_at: String,
    #[serde(default)]
    pub boot_ms: u64,
    /// `snapshot-natid` when it was restored from its template.
    #[serde(default)]
    pub boot_mode: String,
    #[serde(default)]
    pub persistent: bool,
    #[serde(default)]
    pub ttl_seconds: u64,
    /// How strongly it is separated from its host: `kvm` or `emulated`.
    #[serde(default)]
    pub isolation: String,
}

/// Asks for a sandbox. Fields that are not here, such as `cpu`, are ignored: sizes belong to the template.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CreateSandbox {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_snapshot: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent: Option<bool>,
    /// Text to text; other values are refused by name, which is why they are read loosely here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress_allowlist: Option<Vec<Value>>,
    /// Environment of every process in the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, Value>>,
}

impl TryFrom<CreateSandbox> for SandboxSpec {
    type Error = Fault;

    fn try_from(ask: CreateSandbox) -> Result<Self, Fault> {
        let CreateSandbox {
            template,
            from_snapshot,
            ttl_seconds,
            persistent,
            metadata,
            volumes,
            egress_allowlist,
            env,
        } = ask;
        if from_snapshot.is_some_and(|snapshot| !snapshot.is_empty()) {
            return Err(not_yet("from_snapshot", "create from a template instead"));
        }
        if volumes.is_some_and(|volumes| !volumes.is_empty()) {
            return Err(not_yet("volumes", "leave the field out and write files instead"));
        }
        // Ignoring this one would run code with more network than its owner allowed.
        if egress_allowlist.is_some() {
            return Err(not_yet("egress_allowlist", "leave the field out"));
        }
        let template = template.filter(|name| !name.is_empty());
        let template = template.ok_or_else(|| bad("sandbox.template_required", "template required"))?;
        Ok(SandboxSpec {
            template: template.parse::<TemplateName>().map_err(|error| bad("template.bad_name", error.to_string()))?,
            ttl_seconds: ttl(ttl_seconds)?,
            persistent: persistent.unwrap_or(false),
            metadata: metadata_of(metadata.unwrap_or_default())?,
            env: env_of(env.unwrap_or_default())?,
            origin: Origin::Template,
            egress: Egress::Open,
            bandwidth_mbps: None,
            volumes: Vec::new(),
        })
    }
}

/// Gives the metadata that may be shown: everything but the write-only keys.
pub fn visible_metadata(metadata: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    metadata.iter().filter(|(key, _)| !key.starts_with(SECRET_PREFIX)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn bad(code: &'static str, text: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Caller, code, text)
}

fn not_yet(field: &str, next_step: &str) -> Fault {
    bad("not_supported", format!("{field} is not supported yet; {next_step}"))
}

fn ttl(asked: Option<i64>) -> Result<u64, Fault> {
    let Some(asked) = asked else { return Ok(TTL_SECONDS_DEFAULT) };
    let seconds = u64::try_from(asked)
        .map_err(|_| bad("sandbox.bad_ttl", format!("ttl_seconds must be 0 or more, not {asked}")))?;
    if seconds > TTL_SECONDS_MAX {
        // One published worker looks for these very words and asks again without a limit.
        return Err(bad("sandbox.bad_ttl", format!("ttl_seconds exceeds tier maximum of {TTL_SECONDS_MAX}")));
    }
    Ok(seconds)
}

fn metadata_of(asked: BTreeMap<String, Value>) -> Result<BTreeMap<String, String>, Fault> {
    const CODE: &str = "sandbox.bad_metadata";
    if asked.len() > METADATA_ENTRIES_MAX {
        return Err(bad(CODE, format!("metadata has {} entries; at most {METADATA_ENTRIES_MAX} fit", asked.len())));
    }
    let mut metadata = BTreeMap::new();
    for (key, value) in asked {
        let Value::String(value) = value else {
            return Err(bad(CODE, format!("metadata {:?} must be a string", short(&key))));
        };
        if key.is_empty() || key.len() > METADATA_KEY_BYTES_MAX {
            return Err(bad(
                CODE,
                format!("metadata key {:?} must have 1 to {METADATA_KEY_BYTES_MAX} bytes", short(&key)),
            ));
        }
        if value.len() > METADATA_VALUE_BYTES_MAX {
            return Err(bad(
                CODE,
                format!("metadata {:?} is longer than {METADATA_VALUE_BYTES_MAX} bytes", short(&key)),
            ));
        }
        if !SERVER_KEYS.contains(&key.as_str()) {
            metadata.insert(key, value);
        }
    }
    Ok(metadata)
}

fn env_of(asked: BTreeMap<String, Value>) -> Result<BTreeMap<String, String>, Fault> {
    let mut env = BTreeMap::new();
    for (name, value) in asked {
        let Value::String(value) = value else {
            return Err(bad("env.bad", format!("env {:?} must be a string", short(&name))));
        };
        env.insert(name, value);
    }
    check_env(&env)?;
    Ok(env)
}

/// Refuses an environment that no process could have.
pub(crate) fn check_env(env: &BTreeMap<String, String>) -> Result<(), Fault> {
    const CODE: &str = "env.bad";
    let bytes: usize = env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if env.len() > ENV_ENTRIES_MAX || bytes > ENV_BYTES_MAX {
        return Err(bad(
            CODE,
            format!("env is too large: at most {ENV_ENTRIES_MAX} variables of {ENV_BYTES_MAX} bytes in all"),
        ));
    }
    match env.iter().find(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')) {
        Some((name, _)) => Err(bad(CODE, format!("env {:?} has a bad name or a NUL byte", short(name)))),
        None => Ok(()),
    }
}

/// Shortens a caller's text for use in an error.
fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<SandboxSpec, Fault> {
        serde_json::from_str::<CreateSandbox>(json).unwrap().try_into()
    }

    fn refused(json: &str, code: &str, text: &str) {
        let fault = parse(json).unwrap_err();
        assert_eq!((fault.kind, fault.code), (FaultKind::Caller, code), "{json}");
        assert!(fault.text.contains(text), "{json}: {}", fault.text);
    }

    #[test]
    fn what_published_clients_send_is_accepted() {
        let spec = parse(r#"{"template":"code-interpreter"}"#).unwrap();
        assert_eq!((spec.ttl_seconds, spec.persistent), (300, false));
        let spec = parse(
            r#"{"template":"base","ttl_seconds":0,"persistent":true,"cpu":"many","memory_mb":null,"metadata":
               {"cma.session_id":"s","workspace":"theirs","secret.key":"k"},"volumes":[],"from_snapshot":"","zzz":[1]}"#,
        )
        .unwrap();
        assert_eq!((spec.ttl_seconds, spec.persistent), (0, true));
        assert_eq!(spec.metadata.keys().collect::<Vec<_>>(), ["cma.session_id", "secret.key"]);
        assert_eq!(visible_metadata(&spec.metadata).len(), 1);
    }

    #[test]
    fn bad_values_are_named() {
        refused("{}", "sandbox.template_required", "template");
        refused(r#"{"template":"../x"}"#, "template.bad_name", "bad template name");
        refused(r#"{"template":"a","ttl_seconds":-1}"#, "sandbox.bad_ttl", "ttl_seconds");
        refused(r#"{"template":"a","ttl_seconds":99999999999}"#, "sandbox.bad_ttl", "ttl_seconds exceeds tier maximum");
        refused(r#"{"template":"a","metadata":{"n":1}}"#, "sandbox.bad_metadata", "\"n\" must be a string");
        refused(r#"{"template":"a","env":{"A=B":"1"}}"#, "env.bad", "bad name");
        refused(r#"{"template":"a","env":{"A":"\u0000"}}"#, "env.bad", "NUL");
        refused(r#"{"template":"a","from_snapshot":"s1"}"#, "not_supported", "not supported yet");
        refused(r#"{"template":"a","volumes":[{"name":"v"}]}"#, "not_supported", "not supported yet");
        refused(r#"{"template":"a","egress_allowlist":[]}"#, "not_supported", "not supported yet");
    }
}
