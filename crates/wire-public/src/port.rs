//! Ports of a sandbox: ports that a program listens on, and ports that the owner declared. A
//! declaration is a label, stored as metadata under a key of the server.

use std::collections::BTreeMap;

use pandastack_model::{Fault, GuestPort, SandboxId};
use serde::{Deserialize, Serialize};

use crate::{failure::bad, limits::PORT_LABEL_BYTES_MAX, metadata::PORT_PREFIX};

/// The default label.
const LABEL_DEFAULT: &str = "service";
/// The SSH port. It is hidden and cannot be declared, because shells are not reached by previews.
const SSH_PORT: u16 = 22;

/// One port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Port {
    pub port: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub listening: bool,
    /// `user` if the port was declared, `detected` if it was found.
    pub source: String,
    /// URL for requests to the port, with an API key.
    #[serde(default)]
    pub proxy_url: String,
    /// Name of the listening program, as reported by the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Whether the program listens only on the sandbox's loopback interface. Requests cannot reach
    /// it then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loopback_only: bool,
}

/// Declares a port.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct DeclarePort {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// A checked declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredPort {
    pub port: GuestPort,
    pub label: String,
}

impl TryFrom<DeclarePort> for DeclaredPort {
    type Error = Fault;

    fn try_from(ask: DeclarePort) -> Result<Self, Fault> {
        let DeclarePort { port, label } = ask;
        let label = label.filter(|label| !label.is_empty()).unwrap_or_else(|| LABEL_DEFAULT.to_owned());
        if label.len() > PORT_LABEL_BYTES_MAX || label.chars().any(char::is_control) {
            return Err(bad(
                "port.bad_label",
                format!("label must be 1 to {PORT_LABEL_BYTES_MAX} bytes of plain text"),
            ));
        }
        let port = checked_port(port)?;
        if is_hidden(port) {
            return Err(bad("port.bad_port", format!("port {port} is reserved and cannot be declared")));
        }
        Ok(Self { port, label })
    }
}

/// Checks the port of a request.
pub(crate) fn checked_port(asked: Option<i64>) -> Result<GuestPort, Fault> {
    let asked = asked.ok_or_else(|| bad("port.bad_port", "port required"))?;
    GuestPort::try_from(asked).map_err(|error| bad("port.bad_port", error.to_string()))
}

/// Tells whether a port is left out of lists.
pub fn is_hidden(port: GuestPort) -> bool {
    port.get() == SSH_PORT
}

/// The metadata key of a declared port.
pub fn declared_key(port: GuestPort) -> String {
    format!("{PORT_PREFIX}{port}")
}

/// The port that a metadata key declares.
pub fn declared_port(key: &str) -> Option<GuestPort> {
    key.strip_prefix(PORT_PREFIX)?.parse().ok()
}

/// The declared ports in a sandbox's metadata, with their labels.
pub fn declared_ports(metadata: &BTreeMap<String, String>) -> BTreeMap<GuestPort, String> {
    metadata.iter().filter_map(|(key, label)| Some((declared_port(key)?, label.clone()))).collect()
}

/// The path under which requests are passed on to a port.
pub fn proxy_path(sandbox: SandboxId, port: GuestPort) -> String {
    format!("/v1/sandboxes/{sandbox}/proxy/{port}/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: Result<(u16, &str), &str>) {
        let ask: DeclarePort = serde_json::from_str(json).unwrap();
        let found = DeclaredPort::try_from(ask).map(|declared| (declared.port.get(), declared.label));
        assert_eq!(found.map_err(|fault| fault.code), expected.map(|(port, label)| (port, label.to_owned())), "{json}");
    }

    #[test]
    fn declarations_are_checked() {
        check(r#"{"port":3000}"#, Ok((3000, "service")));
        check(r#"{"port":3000,"label":"web é","x":1}"#, Ok((3000, "web é")));
        check(r#"{"port":3000,"label":null}"#, Ok((3000, "service")));
        for bad in ["{}", r#"{"port":0}"#, r#"{"port":65536}"#, r#"{"port":-1}"#, r#"{"port":22}"#, r#"{"port":1050}"#]
        {
            check(bad, Err("port.bad_port"));
        }
        check(r#"{"port":80,"label":"a\nb"}"#, Err("port.bad_label"));
        check(&format!(r#"{{"port":80,"label":"{}"}}"#, "x".repeat(65)), Err("port.bad_label"));
    }

    #[test]
    fn keys_are_read_as_they_were_written() {
        let port = GuestPort::try_from(8080).unwrap();
        assert_eq!(declared_port(&declared_key(port)), Some(port));
        for other in ["port.", "port.x", "port.0", "port.1050", "ports.80", "80"] {
            assert_eq!(declared_port(other), None, "{other}");
        }
    }
}
