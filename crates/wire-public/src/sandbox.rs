//! The sandbox object, and the request that creates one. Requests are checked here.

use std::collections::BTreeMap;

use pandastack_model::{Egress, Fault, TTL_SECONDS_DEFAULT, TemplateName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    egress::{bandwidth, egress_of},
    failure::{bad, short},
    limits::{ENV_BYTES_MAX, ENV_ENTRIES_MAX, TTL_SECONDS_MAX},
    metadata::metadata_of,
    volume::{MountSpec, VolumeAttachment, mounts_of},
};

/// A sandbox, as create, list, get and fork return it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sandbox {
    pub id: String,
    pub template: String,
    /// Number of CPUs, from the template.
    pub cpu: u32,
    pub memory_mb: u64,
    /// `creating`, `running`, `paused`, `hibernating`, `hibernated`, `waking`, `stopping` or
    /// `failed`.
    pub status: String,
    /// Why the sandbox failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_reason: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub guest_ip: String,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    pub created_at: String,
    /// The snapshot that the sandbox was created from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_snapshot: Option<String>,
    #[serde(default)]
    pub boot_ms: u64,
    /// How the sandbox was started: `snapshot-natid` from its template, else `snapshot`, `fork` or
    /// `wake`.
    #[serde(default)]
    pub boot_mode: String,
    #[serde(default)]
    pub persistent: bool,
    #[serde(default)]
    pub ttl_seconds: u64,
    /// Isolation from the host: `kvm` or `emulated`.
    #[serde(default)]
    pub isolation: String,
    /// A warning about untrusted code at this isolation. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation_warning: Option<String>,
    /// The destinations that the sandbox may reach. Absent if there is no list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_allowlist: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_mbps: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeAttachment>,
    /// The managed database that this is the machine of. Absent for plain sandboxes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_id: Option<String>,
}

/// Creates a sandbox. Other fields, such as `cpu`, are ignored, because the template defines the
/// size.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CreateSandbox {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The snapshot to start from. It overrides `template`, which published clients always send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_snapshot: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent: Option<bool>,
    /// Text keys with text values. Other values are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<VolumeAttachment>>,
    /// Host names, `*.suffix` or IPv4 networks. An empty list allows nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress_allowlist: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress_mbps: Option<i64>,
    /// Environment variables of every process in the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, Value>>,
}

/// A checked request. The store resolves its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSandboxSpec {
    pub start: SandboxSource,
    pub ttl_seconds: u64,
    pub persistent: bool,
    pub metadata: BTreeMap<String, String>,
    pub env: BTreeMap<String, String>,
    pub egress: Egress,
    pub bandwidth_mbps: Option<u32>,
    pub volumes: Vec<MountSpec>,
}

/// The source of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxSource {
    Template(TemplateName),
    /// The id of a snapshot, as the caller wrote it.
    Snapshot(String),
}

impl TryFrom<CreateSandbox> for CreateSandboxSpec {
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
            egress_mbps,
            env,
        } = ask;
        let volumes = mounts_of(volumes.unwrap_or_default())?;
        let start = match from_snapshot.filter(|snapshot| !snapshot.is_empty()) {
            Some(_) if !volumes.is_empty() => {
                let text = "volumes cannot be attached to a sandbox made from a snapshot; use a template instead";
                return Err(bad("sandbox.volumes_and_snapshot", text));
            }
            Some(snapshot) => SandboxSource::Snapshot(snapshot),
            None => SandboxSource::Template(template_name(template)?),
        };
        Ok(CreateSandboxSpec {
            start,
            ttl_seconds: ttl_seconds.map_or(Ok(TTL_SECONDS_DEFAULT), checked_ttl)?,
            persistent: persistent.unwrap_or(false),
            metadata: metadata_of(metadata.unwrap_or_default())?,
            env: env_of(env.unwrap_or_default())?,
            egress: egress_of(egress_allowlist)?,
            bandwidth_mbps: bandwidth(egress_mbps)?,
            volumes,
        })
    }
}

/// Checks an idle limit in seconds.
pub fn checked_ttl(asked: i64) -> Result<u64, Fault> {
    let seconds = u64::try_from(asked)
        .map_err(|_| bad("sandbox.bad_ttl", format!("ttl_seconds must be 0 or more, not {asked}")))?;
    if seconds > TTL_SECONDS_MAX {
        // One published worker searches for this exact text and then repeats the request without a
        // limit.
        return Err(bad("sandbox.bad_ttl", format!("ttl_seconds exceeds tier maximum of {TTL_SECONDS_MAX}")));
    }
    Ok(seconds)
}

fn template_name(asked: Option<String>) -> Result<TemplateName, Fault> {
    let name = asked.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| bad("sandbox.template_required", "template required"))?;
    name.parse::<TemplateName>().map_err(|error| bad("template.bad_name", error.to_string()))
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

/// Refuses an environment that is not possible for a process.
pub(crate) fn check_env(env: &BTreeMap<String, String>) -> Result<(), Fault> {
    const CODE: &str = "env.bad";
    let bytes: usize = env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if env.len() > ENV_ENTRIES_MAX || bytes > ENV_BYTES_MAX {
        return Err(bad(
            CODE,
            format!("env is too large: at most {ENV_ENTRIES_MAX} variables with {ENV_BYTES_MAX} bytes in total"),
        ));
    }
    match env.iter().find(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')) {
        Some((name, _)) => Err(bad(CODE, format!("env {:?} has an invalid name or contains a NUL byte", short(name)))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use pandastack_model::{FaultKind, VolumeAccess};

    use super::*;

    fn parse(json: &str) -> Result<CreateSandboxSpec, Fault> {
        serde_json::from_str::<CreateSandbox>(json).unwrap().try_into()
    }

    fn refused(json: &str, code: &str, text: &str) {
        let fault = parse(json).unwrap_err();
        assert_eq!((fault.kind, fault.code), (FaultKind::Caller, code), "{json}");
        assert!(fault.text.contains(text), "{json}: {}", fault.text);
    }

    #[test]
    fn what_published_clients_send_is_accepted() {
        let ask = parse(r#"{"template":"code-interpreter"}"#).unwrap();
        assert_eq!((ask.ttl_seconds, ask.persistent, ask.egress), (300, false, Egress::Open));
        let ask = parse(
            r#"{"template":"base","ttl_seconds":0,"persistent":true,"cpu":"many","memory_mb":null,"metadata":
               {"cma.session_id":"s","workspace":"theirs","secret.key":"k"},"volumes":[],"from_snapshot":"","zzz":[1]}"#,
        )
        .unwrap();
        assert_eq!((ask.ttl_seconds, ask.persistent), (0, true));
        assert_eq!(ask.metadata.keys().collect::<Vec<_>>(), ["cma.session_id", "secret.key"]);
    }

    #[test]
    fn a_snapshot_beats_the_template_that_comes_with_it() {
        let ask = parse(r#"{"template":"../nonsense","from_snapshot":"s1"}"#).unwrap();
        assert_eq!(ask.start, SandboxSource::Snapshot("s1".into()));
        refused(r#"{"from_snapshot":"s1","volumes":[{"name":"v"}]}"#, "sandbox.volumes_and_snapshot", "volumes");
    }

    #[test]
    fn volumes_and_egress_are_read() {
        let ask = parse(
            r#"{"template":"a","volumes":[{"name":"v"},{"name":"w","read_only":true,"mount_path":"/data"}],
               "egress_allowlist":["PyPI.org","*.debian.org"],"egress_mbps":20}"#,
        )
        .unwrap();
        let mounts: Vec<_> = ask.volumes.iter().map(|mount| (mount.path.as_str(), mount.access)).collect();
        assert_eq!(mounts, [("/mnt/v", VolumeAccess::ReadWrite), ("/data", VolumeAccess::ReadOnly)]);
        assert!(ask.egress.names("pypi.org") && !ask.egress.names("example.org"));
        assert_eq!(ask.bandwidth_mbps, Some(20));
        assert_eq!(parse(r#"{"template":"a","egress_allowlist":[]}"#).unwrap().egress, Egress::Only(Vec::new()));
        assert_eq!(parse(r#"{"template":"a","egress_allowlist":null}"#).unwrap().egress, Egress::Open);
    }

    #[test]
    fn bad_values_are_named() {
        refused("{}", "sandbox.template_required", "template");
        refused(r#"{"template":"../x"}"#, "template.bad_name", "bad template name");
        refused(r#"{"template":"a","ttl_seconds":-1}"#, "sandbox.bad_ttl", "ttl_seconds");
        refused(r#"{"template":"a","ttl_seconds":99999999999}"#, "sandbox.bad_ttl", "ttl_seconds exceeds tier maximum");
        refused(r#"{"template":"a","metadata":{"n":1}}"#, "sandbox.bad_metadata", "\"n\" must be a string");
        refused(r#"{"template":"a","env":{"A=B":"1"}}"#, "env.bad", "invalid name");
        refused(r#"{"template":"a","env":{"A":"\u0000"}}"#, "env.bad", "NUL");
        refused(r#"{"template":"a","egress_allowlist":["http://x"]}"#, "egress.bad_rule", "http://x");
        refused(r#"{"template":"a","egress_mbps":0}"#, "egress.bad_mbps", "egress_mbps");
    }
}
